"""Trained networks in files, and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.train.stopping import job_of, normalised, photographs
from torch import nn

from recollect import SGD, DataError, DERpp, InputError, Method, ResNet18, run
from recollect.methods import METHODS
from recollect.streams import Stream, TaskStream
from recollect.train import Details, Result, inputs_of, train
from recollect.train.loop import Progress

ELSEWHERE = """
import json, sys, torch
from recollect.streams import benchmark
from recollect.train import Result, inputs_of

stream = benchmark("seq-digits").stream()
for data in json.load(open(sys.argv[1])):
    result = Result.from_json(data)
    module, right = result.module(), []
    for task in range(stream.tasks):
        x, y = stream.test(torch.tensor([result.seed]), task)
        hits = module(inputs_of(stream, x[0])).argmax(1) == y[0]
        right.append(100 * hits.double().mean().item())
    print(sum(right) / len(right))
"""


def percent(module: nn.Module, stream: Stream, seed: int) -> list[float]:
    """The accuracy on each task among all classes."""
    found = []
    for task in range(stream.tasks):
        x, y = stream.test(torch.tensor([seed]), task)
        predicted = module(inputs_of(stream, x[0])).argmax(1)
        found.append((predicted == y[0]).sum().item() * 100 / len(y[0]))
    return found


def test_a_network_has_the_same_accuracy_in_another_process(
    tmp_path: Path, python: Callable[..., str]
) -> None:
    results = run("seq-digits", "derpp", buffer=50, seeds=2, save_networks=tmp_path / "nets")
    results.save(tmp_path / "runs.json")
    found = python("-c", ELSEWHERE, str(tmp_path / "runs.json"))
    ours = [result.accuracy["class"] for result in results]
    assert [float(line) for line in found.split()] == pytest.approx(ours, abs=1e-6)
    assert len({result.network_file for result in results}) == 2


@pytest.mark.parametrize("network", [normalised, normalised()], ids=["function", "module"])
def test_a_network_of_ones_own_is_given_again(
    network: Callable[[], nn.Module] | nn.Module, toy_stream: TaskStream, tmp_path: Path
) -> None:
    methods = (DERpp(0.3, 0.5), DERpp(0.6, 0.1))
    details = Details(networks=tmp_path)
    for result in train(job_of(toy_stream, *methods, network=network, details=details)):
        module = result.module(network)
        assert not module.training
        assert percent(module, toy_stream, result.seed) == result.matrix["class"][-1]
        with pytest.raises(InputError, match=r"result\.module\(network\)"):
            result.module()
        with pytest.raises(InputError, match="differs from the trained one"):
            result.module(nn.Linear(6, 4))


def test_images_are_normalised_as_in_training(tmp_path: Path) -> None:
    def network() -> nn.Module:
        return ResNet18(4, width=2, channels=2)

    stream, details = photographs(), Details(networks=tmp_path)
    (result,) = train(job_of(stream, SGD(), network=network, details=details))
    assert percent(result.module(), stream, 0) == result.matrix["class"][-1]


def test_a_file_has_the_names_of_the_state_dict(toy_stream: TaskStream, tmp_path: Path) -> None:
    job = job_of(toy_stream, SGD(), network=normalised, details=Details(networks=tmp_path))
    progress = Progress(job)
    list(progress.advance())
    (result,) = progress.results()
    assert result.network_file is not None
    module = normalised().eval()
    module.load_state_dict(load_file(result.network_file))
    x = torch.rand(5, 6)
    torch.testing.assert_close(module(x), progress.fleet.logits(x[None])[0])
    assert [file.name for file in tmp_path.iterdir()] == [Path(result.network_file).name]


@pytest.mark.parametrize("name", ["pnn", "hat", "pc"])
def test_networks_that_a_method_changes_compute_by_task(
    name: str, toy_stream: TaskStream, tmp_path: Path
) -> None:
    method = METHODS[name]()
    (result,) = train(job_of(toy_stream, method, details=Details(networks=tmp_path)))
    module, found = result.module(), []
    setting = "task" if method.needs.task_id else "class"
    for task in range(2):
        if method.needs.task_id:
            module.begin(task, training=False)  # type: ignore[operator]
        x, y = toy_stream.test(torch.tensor([0]), task)
        scores = module(x[0])
        if setting == "task":
            scores = scores[:, list(toy_stream.task_classes(task))]
        labels = scores.argmax(1)
        if setting == "task":
            labels = torch.tensor(toy_stream.task_classes(task))[labels]
        found.append((labels == y[0]).sum().item() * 100 / len(y[0]))
    assert found == result.matrix[setting][-1]


@pytest.mark.parametrize("name", ["icarl", "packnet"])
def test_methods_that_predict_otherwise_say_so(
    name: str, toy_stream: TaskStream, tmp_path: Path
) -> None:
    method: Method = METHODS[name]()
    (result,) = train(job_of(toy_stream, method, details=Details(networks=tmp_path)))
    with pytest.warns(UserWarning, match="does not predict with the outputs of its network alone"):
        module = result.module()
    x, _ = toy_stream.test(torch.tensor([0]), 0)
    assert module(x[0]).shape == (20, 4)


def test_files_that_are_missing_or_of_another_run_are_refused(
    toy_stream: TaskStream, tmp_path: Path
) -> None:
    def one(seed: int, **changes: Details) -> Result:
        job = job_of(toy_stream, SGD(), **changes)
        return train(replace(job, runs=(replace(job.runs[0], seed=seed),)))[0]

    (tmp_path / "first").mkdir()
    first = one(0, details=Details(networks=tmp_path / "first"))
    with pytest.raises(InputError, match="was not saved"):
        one(0).module()
    with pytest.raises(DataError, match="of another run"):
        one(1).module(file=first.network_file)
    assert first.network_file is not None
    moved = Path(first.network_file).rename(tmp_path / "moved.safetensors")
    with pytest.raises(DataError, match="pass its new path"):
        first.module()
    assert isinstance(first.module(file=moved), nn.Module)
    moved.write_bytes(moved.read_bytes()[:-5])
    with pytest.raises(DataError, match="cannot be read"):
        first.module(file=moved)
