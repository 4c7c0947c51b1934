"""The tool that puts questions about the authors' code to reduced runs, on tiny images."""

from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch
from tools import reduced as tool
from tools.collect import runs_in
from tools.reduced_fisher import sizes_table
from tools.reduced_methods import (
    IMAGES,
    EstimatedOEWC,
    VariantICaRL,
    fisher_exact,
    fisher_of_labels,
)
from torch.nn.functional import cross_entropy

from recollect import ResNet18, from_arrays, run
from recollect.core.model import Model
from recollect.core.network import Network
from recollect.streams import TaskStream


def tiny() -> TaskStream:
    """Four classes in two tasks: images of noise around a colour for each class."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(80) % 4
    x = torch.randint(64, (80, 3, 16, 16), generator=generator) + 40 * y[:, None, None, None]
    stream = from_arrays(x.byte(), y, normalise=True, crop=4, flip=True, name="tiny")
    assert stream.images is not None
    return stream


@pytest.fixture
def model() -> Model:
    network = Network(lambda: ResNet18(4, width=2), seeds=[0, 1])
    return Model(network, network.weights, network.buffers, torch.tensor([0.1, 0.1]))


def images() -> tuple[torch.Tensor, torch.Tensor]:
    stream = tiny()
    return stream.train_x[:6].expand(2, -1, -1, -1, -1), stream.train_y[:6].expand(2, -1)


def plain(model: Model, run_index: int) -> ResNet18:
    """The network of one run as a module, in evaluation mode."""
    module = ResNet18(4, width=2).eval()
    tensors = [*model.weights.named().items(), *model.buffers.items()]
    module.load_state_dict({name: tensor[run_index] for name, tensor in tensors})
    return module


def test_every_row_is_trained_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool, "WIDTH", 2)
    monkeypatch.setattr(tool, "EPOCHS", 1)
    words = ["oewc", "--folder", str(tmp_path), "--seeds"]
    assert tool.main([*words, "1"], tiny) == 0
    first = (tmp_path / "oewc.jsonl").read_text()
    assert tool.main([*words, "2"], tiny) == 0
    assert (tmp_path / "oewc.jsonl").read_text().startswith(first)
    runs = runs_in(tmp_path / "oewc.jsonl")
    assert [run.seed for run in runs] == [0, 0, 0, 1, 1, 1]
    assert "| one image at a time, statistics moved | 2 | " in capsys.readouterr().out
    assert tool.main([*words, "3", "--table"], tiny) == 0
    assert runs_in(tmp_path / "oewc.jsonl") == runs


def test_the_table_of_icarl_has_the_accuracy_on_tasks_so_far(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool, "WIDTH", 2)
    monkeypatch.setattr(tool, "EPOCHS", 1)
    assert tool.main(["icarl", "--folder", str(tmp_path), "--seeds", "1"], tiny) == 0
    (merged, *_) = runs_in(tmp_path / "icarl.jsonl")
    (one, _), both = merged.matrix["class"]
    mean = fmean(value or 0 for value in both)
    assert f"| merged | 1 | {one:.2f} | {mean:.2f} |" in capsys.readouterr().out


def test_the_fisher_information_is_measured_during_the_first_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool, "WIDTH", 2)
    monkeypatch.setattr(tool, "MEASURED", (1, 2))
    assert tool.main(["fisher", "--folder", str(tmp_path), "--seeds", "1"], tiny) == 0
    rows = tool.read(tmp_path / "fisher.jsonl")
    assert [row["epoch"] for row in rows] == [1, 2]
    assert sizes_table(rows).count("\n") == 3


def test_a_reduced_stream_has_the_first_images_of_every_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tool, "TRAINED", 3)
    monkeypatch.setattr(tool, "TESTED", 2)
    stream = tiny()
    found = tool.reduced(stream)
    assert [len(ids) for ids in (*found.train_ids, *found.test_ids)] == [6, 6, 4, 4]
    twos = [i for i in stream.train_ids[1].tolist() if stream.train_y[i] == 2]
    assert [i for i in found.train_ids[1].tolist() if found.train_y[i] == 2] == twos[:3]


def test_unmerged_exemplars_are_not_in_a_tasks_data() -> None:
    steps = {}
    for unmerged in (0, 1):
        (found,) = run(tiny(), VariantICaRL(unmerged=unmerged), buffer=8, seeds=1, epochs=1,
                       network=lambda: ResNet18(4, width=2), lr=0.1, bs=4, workers=1)  # fmt: skip
        steps[unmerged] = found.steps
    assert steps == {0: 16 + 2, 1: 16}


def test_without_the_relu_only_features_differ() -> None:
    """The first task's training does not use features, so the network is the same."""
    stream = tiny()
    results = {}
    for lacking in (0, 1):
        results[lacking] = run(
            stream, VariantICaRL(unmerged=1, without_relu=lacking), buffer=8, seeds=1, epochs=2,
            network=lambda: ResNet18(4, width=2), lr=0.1, bs=4, workers=1, curves=4,
        )[0]  # fmt: skip
    curves = [each.curves for each in results.values()]
    assert curves[0]
    assert curves[1]
    assert curves[0].loss == curves[1].loss


def test_features_without_the_relu_are_those_of_a_plain_network(model: Model) -> None:
    x = IMAGES.plain(images()[0])
    with VariantICaRL(without_relu=1)._features(model):
        found = model.features(x)
    for run_index in range(2):
        module = plain(model, run_index)
        with torch.no_grad():
            first = module.stem[1](module.stem[0](x[run_index]))
            wanted = module.stages(first).mean((2, 3))
        torch.testing.assert_close(found[run_index], wanted)
    assert not torch.allclose(model.features(x), found)


def test_the_estimate_of_labels_is_that_of_a_plain_loop(model: Model) -> None:
    x, y = images()
    found = fisher_of_labels(model, x, y, torch.tensor([3, 4]), training=False)
    for run_index in range(2):
        module = plain(model, run_index)
        total = {name: torch.zeros_like(p) for name, p in module.named_parameters()}
        for image, label in zip(IMAGES.plain(x)[run_index], y[run_index], strict=True):
            surprise = cross_entropy(module(image[None]), label[None])
            module.zero_grad()
            surprise.backward()  # type: ignore[no-untyped-call]
            for name, p in module.named_parameters():
                assert p.grad is not None
                total[name] += (-surprise.detach()).exp() * p.grad.square() / len(x[0])
        for name, tensor in found.named().items():
            torch.testing.assert_close(tensor[run_index], total[name])


def test_only_images_that_move_statistics_do(model: Model) -> None:
    x, y = images()
    before = {name: tensor.clone() for name, tensor in model.buffers.items()}
    still = fisher_of_labels(model, x, y, torch.tensor([3, 4]))
    fisher_exact(model, x)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.buffers.items())
    moving = fisher_of_labels(model, x, y, torch.tensor([3, 4]), move=True)
    assert not any(torch.equal(tensor, before[name]) for name, tensor in model.buffers.items())
    torch.testing.assert_close(moving.named(), still.named())


def test_the_exact_one_is_that_of_the_method() -> None:
    """With all images of a task, the variant is online EWC."""
    options: dict[str, Any] = {
        "seeds": 1,
        "epochs": 2,
        "lr": 0.1,
        "lambda_": 1.0,
        "workers": 1,
        "bs": 4,
    }
    network = lambda: ResNet18(4, width=2)  # noqa: E731
    stream = replace(tiny(), images=IMAGES)
    (ours,) = run(stream, EstimatedOEWC, network=network, images=1000, **options)
    (usual,) = run(stream, "oewc", network=network, **options)
    assert ours.matrix == usual.matrix
