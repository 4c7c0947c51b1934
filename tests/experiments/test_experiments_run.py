"""`recollect.run`: by name, by instance, on own arrays, with own networks, always the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import nn

import recollect
from recollect import DataError, DERpp, Results
from recollect.streams import TaskStream
from recollect.train import Result

Scenario = Literal["class", "task", "domain", "arrival"]
SCENARIOS: dict[Scenario, set[str]] = {
    "class": {"class", "task"},
    "task": {"class", "task"},
    "domain": {"domain"},
    "arrival": {"general"},
}


def own_stream(scenario: Scenario, dtype: type[np.generic] = np.float32) -> TaskStream:
    """Four classes of 50 examples, easy to tell apart."""
    y = np.arange(200) % 4
    noise = np.random.default_rng(0).integers(0, 60, size=(200, 2, 3))
    x = (180 * np.eye(4, 6)[y].reshape(200, 2, 3) + noise).astype(dtype)
    if dtype is not np.uint8:
        x = (x / 255).astype(dtype)
    ids = {"task": y // 2, "domain": np.arange(200) // 100}.get(scenario)
    return recollect.from_arrays(x, y, scenario=scenario, task_ids=ids, name=f"my-{scenario}")


def run(*what: Any, **given: Any) -> Results:
    return recollect.run(*what, **{"workers": 1, **given})


def timeless(results: Results) -> list[Result]:
    """The results without what differs from one call to the next: how long it took."""
    return [replace(result, train_seconds=0.0) for result in results]


def linear() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))


def test_by_name() -> None:
    results = run("seq-digits", "derpp", buffer=50, seeds=2)
    assert [r.seed for r in results] == [0, 1]
    for result in results:
        assert (result.benchmark, result.method, result.buffer) == ("seq-digits", "derpp", 50)
        assert result.hyperparameters == {
            "lr": 0.03, "alpha": 0.2, "beta": 1.0, "bs": 10, "mbs": 10,
        }  # fmt: skip
        assert set(result.accuracy) == {"class", "task"}
        assert not result.diverged
    assert results[0].accuracy != results[1].accuracy
    by_title = run("seq-digits", "DER++", buffer=50, seeds=2)
    assert timeless(by_title) == timeless(results)


def test_an_instance_brings_its_hyperparameters() -> None:
    given = {"buffer": 50, "seeds": 1, "lr": 0.1}
    by_instance = run("seq-digits", DERpp(alpha=0.7, beta=0.3), **given)
    assert by_instance[0].hyperparameters["alpha"] == 0.7
    assert by_instance[0].hyperparameters["beta"] == 0.3
    by_class = run("seq-digits", DERpp, alpha=0.7, beta=0.3, **given)
    by_name = run("seq-digits", "derpp", alpha=0.7, beta=0.3, **given)
    assert timeless(by_instance) == timeless(by_class) == timeless(by_name)
    other = run("seq-digits", DERpp(alpha=0.0, beta=0.0), **given)
    assert other[0].matrix != by_instance[0].matrix
    grid = run("seq-digits", DERpp(alpha=0.7, beta=0.3), beta=[0.1, 0.2], **given)
    assert [(r.hyperparameters["alpha"], r.hyperparameters["beta"]) for r in grid] == [
        (0.7, 0.1),
        (0.7, 0.2),
    ]


@pytest.mark.parametrize("method", ["joint", "sgd", "derpp"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_own_arrays_in_every_scenario(scenario: Scenario, method: str) -> None:
    stream = own_stream(scenario)
    buffer = 40 if method == "derpp" else None
    results = run(stream, method, buffer=buffer, seeds=2, lr=0.2, epochs=4)
    tasks = 1 if scenario == "arrival" else 2
    for result in results:
        assert result.benchmark == f"my-{scenario}"
        assert set(result.accuracy) == SCENARIOS[scenario]
        for rows in result.matrix.values():
            assert np.array(rows).shape == (1 if method == "joint" else tasks, tasks)
        transfers = [v for m in (result.fwt, result.bwt, result.forgetting) for v in m.values()]
        assert all((v is None) == (method == "joint" or tasks == 1) for v in transfers)
        if method != "sgd" or scenario in ("domain", "arrival"):
            assert min(result.accuracy.values()) > 80
        elif scenario in ("class", "task"):
            assert result.accuracy["class"] < 60, "forgotten without a memory"


def test_bytes_are_remembered_as_bytes() -> None:
    small = run(own_stream("class", np.uint8), "er", buffer=40, seeds=1)[0]
    large = run(own_stream("class", np.float32), "er", buffer=40, seeds=1)[0]
    assert large.memory_bytes - small.memory_bytes == 40 * 6 * 3
    assert small.accuracy["task"] > 60


@pytest.mark.parametrize("method", ["sgd", "derpp"])
def test_own_network_from_a_function(method: str) -> None:
    buffer = None if method == "sgd" else 40
    given = {"buffer": buffer, "seeds": 2, "network": linear, "lr": 0.1, "epochs": 2}
    before = torch.random.get_rng_state()
    results = run(own_stream("class"), method, **given)
    assert torch.equal(before, torch.random.get_rng_state()), "the user's generator is left alone"
    assert results[0].accuracy["task"] > 80
    assert results[0].untrained != results[1].untrained, "each seed has its own first weights"
    assert timeless(run(own_stream("class"), method, **given)) == timeless(results)


def test_own_network_as_a_module_is_where_every_run_starts() -> None:
    torch.manual_seed(0)
    module = linear()
    before = [tensor.clone() for tensor in module.parameters()]
    given = {"buffer": 40, "seeds": 2, "network": module, "lr": 0.1, "epochs": 2}
    results = run(own_stream("class"), "er", **given)
    assert results[0].untrained == results[1].untrained
    assert results[0].matrix != results[1].matrix
    assert all(map(torch.equal, before, module.parameters())), "the user's module is left alone"
    assert timeless(run(own_stream("class"), "er", **given)) == timeless(results)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_grid_of_lists(workers: int) -> None:
    stream = own_stream("class")
    results = run(
        stream, "der", buffer=20, seeds=[3, 1], lr=[0.05, 0.1], alpha=[0.1, 0.5], bs=[5, 10],
        mbs=5, workers=workers,
    )  # fmt: skip
    names = ("bs", "lr", "alpha")
    assert [(*(r.hyperparameters[n] for n in names), r.seed) for r in results] == [
        (bs, lr, alpha, seed)
        for bs in (5, 10)
        for lr in (0.05, 0.1)
        for alpha in (0.1, 0.5)
        for seed in (3, 1)
    ]
    assert len(results.summaries()) == 8
    alone = run(stream, "der", buffer=20, seeds=[1], lr=0.1, alpha=0.5, bs=10, mbs=5)
    assert results[15].accuracy == alone[0].accuracy
    assert results[15].matrix == alone[0].matrix


@pytest.mark.parametrize("method", ["derpp", "sgd", "joint"])
def test_the_same_call_gives_the_same_results(method: str) -> None:
    given = {"buffer": 50 if method == "derpp" else None, "seeds": 2}
    first = run("seq-digits", method, **given)
    torch.manual_seed(1234)
    np.random.seed(1234)
    assert timeless(run("seq-digits", method, **given)) == timeless(first)


@pytest.mark.parametrize("benchmark", ["seq-digits", "digits-360"])
def test_a_run_is_the_same_in_any_company(benchmark: str) -> None:
    together = run(benchmark, "derpp", buffer=50, seeds=5)
    (alone,) = run(benchmark, "derpp", buffer=50, seeds=[3])
    assert together[3].seed == alone.seed == 3
    assert together[3].accuracy == alone.accuracy
    assert together[3].matrix == alone.matrix
    assert together[3].matrix != together[2].matrix


def test_the_number_of_processes_changes_nothing() -> None:
    stream = own_stream("domain")
    given = {"buffer": 20, "seeds": 5, "lr": [0.05, 0.1]}
    one, two = (run(stream, "er", workers=workers, **given) for workers in (1, 2))
    assert [r.accuracy for r in one] == [r.accuracy for r in two]
    assert [r.matrix for r in one] == [r.matrix for r in two]


def test_joint_on_the_turning_digits() -> None:
    joint, sgd = (
        [result.accuracy["general"] for result in run("digits-360", method, seeds=3)]
        for method in ("joint", "sgd")
    )
    assert min(joint) > max(sgd) + 10
    assert np.mean(joint) > np.mean(sgd) + 14


def test_validation_scores_on_a_part_of_the_training_set() -> None:
    (held_out,) = run("seq-digits", "sgd", seeds=1, validation=True)
    (tested,) = run("seq-digits", "sgd", seeds=1)
    assert held_out.steps < tested.steps
    assert (held_out.validation, tested.validation) == (True, False)
    (of_a_stream,) = run(own_stream("class"), "sgd", seeds=1, validation=True)
    assert of_a_stream.validation


def test_the_folder_of_data_is_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOLLECT_OFFLINE", "1")
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "cache"))
    with pytest.raises(DataError, match=f"{tmp_path / 'nowhere'} does not exist"):
        run("seq-mnist", "sgd", seeds=1, data_dir=tmp_path / "nowhere")
