"""Features of a stream: computed once, cached, and of the encoder in evaluation mode."""

from __future__ import annotations

import importlib.util
import multiprocessing
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import recollect
from recollect import InputError, encode, from_arrays
from recollect.core.images import Images
from recollect.streams import TaskStream, benchmark
from recollect.streams.reading import with_progress
from recollect.testing import check_stream
from recollect.train import Job, Run, encoding
from recollect.train.fingerprint import stream_fingerprint

ROWS = 16
SCRIPT = """
from pathlib import Path
import torch, recollect

class Own(torch.nn.Module):
    def forward(self, x):
        return x.flatten(1) * 2

recollect.encode("seq-digits", Own(), folder=Path(__file__).parent, transform=lambda x: x + 1)
"""


class Counted(nn.Module):
    """An encoder that says how many examples it has seen, in every copy of it."""

    seen: ClassVar[list[int]] = []

    def __init__(self, size: int = 5, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.net = nn.Sequential(
                nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(),
                nn.Linear(144, size),
            )  # fmt: skip
            nn.init.constant_(self.net[1].running_mean, 0.3)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(len(x))
        features: Tensor = self.net(x)
        return features


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(encoding, "ROWS", ROWS)
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "cache"))
    Counted.seen.clear()


@pytest.fixture(scope="module")
def pictures() -> TaskStream:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (60, 3, 8, 8), dtype=np.uint8), np.arange(60) % 6
    test = rng.integers(0, 256, (24, 3, 8, 8), dtype=np.uint8), np.arange(24) % 6
    return from_arrays(
        x, y, test=test, tasks=3, class_order="seed", crop=2, flip=True, normalise=True
    )


def expected(encoder: nn.Module, x: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
    with torch.no_grad():
        found: Tensor = encoder.eval()(change(x.float() / 255))
    return found


def test_features_are_those_of_plain_images_in_evaluation_mode(pictures: TaskStream) -> None:
    encoder = Counted().train()
    before = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    found = encode(pictures, encoder)
    assert encoder.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in encoder.state_dict().items())
    assert (found.shape, found.dtype, found.images) == ((5,), torch.float32, None)
    assert found.name == "arrays+Counted"
    for features, x in ((found.train_x, pictures.train_x), (found.test_x, pictures.test_x)):
        torch.testing.assert_close(features, expected(encoder, x, lambda x: x))
    check_stream(found)


def test_tasks_order_and_splits_stay(pictures: TaskStream) -> None:
    found, seeds = encode(pictures, Counted()), torch.tensor([0, 5])
    encoder = Counted().eval()
    for one, other in ((found, pictures), (found.validation(), pictures.validation())):
        assert one.tasks == other.tasks
        for task in range(one.tasks):
            assert one.task_classes(task) == other.task_classes(task)
            index = other.order(seeds, task, 0, 0, 8)
            assert torch.equal(one.order(seeds, task, 0, 0, 8), index)
            seen, plain = one.pick(seeds, task, index), other.pick(seeds, task, index)
            assert torch.equal(seen.y, plain.y)
            for k in range(2):
                torch.testing.assert_close(seen.x[k], expected(encoder, plain.x[k], lambda x: x))


def test_they_are_computed_once(pictures: TaskStream) -> None:
    first = encode(pictures, Counted())
    assert sum(Counted.seen) == 84
    again = encode(replace(pictures, name="other", images=None), Counted())
    assert sum(Counted.seen) == 84, "neither the name nor the augmentation matters"
    assert torch.equal(first.train_x, again.train_x)
    split = pictures.validation()
    assert encode(split, Counted()).test_x is not None
    assert sum(Counted.seen) == 84, "a validation split has the same examples"


@pytest.mark.parametrize("other", ["weights", "transform", "images"])
def test_whatever_changes_features_computes_them_anew(pictures: TaskStream, other: str) -> None:
    def half(x: Tensor) -> Tensor:
        return x / 2

    first = encode(pictures, Counted())
    changed = replace(pictures, train_x=pictures.train_x.flip(3)) if other == "images" else pictures
    encoder = Counted(seed=1) if other == "weights" else Counted()
    transform = half if other == "transform" else None
    found = encode(changed, encoder, transform=transform)
    assert sum(Counted.seen) > 84
    assert not torch.equal(found.train_x, first.train_x)
    torch.testing.assert_close(
        found.train_x, expected(encoder, changed.train_x, transform or (lambda x: x))
    )
    assert stream_fingerprint(found) != stream_fingerprint(first)


def test_a_module_and_its_copy_share_features(tmp_path: Path) -> None:
    """As a script does, run by itself or imported by another."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, "utf-8")
    found = []
    for name in ("first", "second"):
        made = importlib.util.spec_from_file_location(name, script)
        assert made is not None
        assert made.loader is not None
        module = importlib.util.module_from_spec(made)
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, name, module)
            made.loader.exec_module(module)
        found.append(sorted(tmp_path.rglob("*.safetensors")))
    assert found[0] == found[1]


def test_the_identity_of_a_run_includes_the_encoder(pictures: TaskStream) -> None:
    def key(encoder: nn.Module) -> str:
        run = Run(0, 0.1, recollect.methods.NCM())
        stream = encode(pictures, encoder, name="features")
        job = Job(stream, (run,), 10, 0, None, 1, lambda: recollect.MLP(5, 6, hidden=()))
        return job.identities[0].key

    assert key(Counted()) == key(Counted()) != key(Counted(seed=1))


def test_an_interrupted_call_continues(pictures: TaskStream) -> None:
    whole = nn.Flatten.forward  # of another package: the encoder's own code is in its fingerprint

    def interrupted(self: nn.Flatten, x: Tensor) -> Tensor:
        if len(Counted.seen) == 3:
            raise KeyboardInterrupt
        return whole(self, x)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nn.Flatten, "forward", interrupted)
        with pytest.raises(KeyboardInterrupt):
            encode(pictures, Counted())
    assert Counted.seen == [ROWS] * 3
    found = encode(pictures, Counted())
    assert sum(Counted.seen) == 84 + ROWS, "the third block was begun twice"
    torch.testing.assert_close(found.train_x, expected(Counted(), pictures.train_x, lambda x: x))


def _encode(folder: str, stream: TaskStream, results: Any) -> None:
    torch.set_num_threads(1)
    results.put(encode(stream, Counted(), folder=folder).train_x.sum().item())


def test_two_processes_share_a_cache(pictures: TaskStream, tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    arguments = (str(tmp_path / "shared"), pictures, results)
    both = [context.Process(target=_encode, args=arguments) for _ in range(2)]
    for each in both:
        each.start()
    found = {results.get(timeout=60) for _ in both}
    for each in both:
        each.join()
    assert len(found) == 1
    assert not [*(tmp_path / "shared").rglob("*.part")]


@pytest.mark.parametrize("damage", [b"", b"not a file of ours", None])
def test_a_damaged_file_is_computed_anew(
    pictures: TaskStream, tmp_path: Path, damage: bytes | None
) -> None:
    first = encode(pictures, Counted(), folder=tmp_path)
    files = sorted(tmp_path.rglob("*.safetensors"))
    assert len(files) == 6
    files[0].write_bytes(files[0].read_bytes()[:-1] if damage is None else damage)
    assert torch.equal(encode(pictures, Counted(), folder=tmp_path).train_x, first.train_x)
    assert sum(Counted.seen) in (84 + ROWS, 84 + 60 % ROWS, 84 + 24 % ROWS)


def test_a_cache_that_cannot_be_written_is_no_error(pictures: TaskStream, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here")
    with pytest.warns(UserWarning, match="features cannot be stored"):
        found = encode(pictures, Counted(), folder=tmp_path / "file")
    assert len(found.train_x) == 60


class Wrong(nn.Module):
    """Gives something else than features."""

    def __init__(self, given: object) -> None:
        super().__init__()
        self.given = given

    def forward(self, x: Tensor) -> object:
        return self.given


@pytest.mark.parametrize(
    ("stream", "encoder", "sentence"),
    [
        ("perm-digits", nn.Flatten(), "permuted by seed and task, so they cannot be encoded"),
        ("digits-360", nn.Flatten(), "not a Mnist360, whose examples may differ"),
        ("seq-digits", "resnet", "must be a torch.nn.Module, not str"),
        ("seq-digits", nn.Linear(3, 3), r"does not accept examples of shape \[8, 8\]"),
        ("seq-digits", Wrong({"x": 1}), "must return a tensor of features .* not dict"),
        ("seq-digits", Wrong(torch.zeros(3)), r"not \[3\] for"),
        (
            "seq-digits",
            Wrong(torch.full((ROWS, 2), torch.nan)),
            "not finite floating-point numbers",
        ),
    ],
)
def test_what_cannot_be_encoded_is_refused(stream: str, encoder: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        encode(stream, encoder)


def test_a_benchmark_goes_by_its_name() -> None:
    found = encode("seq-digits", nn.Sequential(nn.Flatten(), nn.Linear(64, 7)), name="mine")
    assert (found.name, found.shape, found.tasks) == ("mine", (7,), 5)
    results = recollect.run(found, "slda", seeds=2, workers=1)
    assert results[0].accuracy["class"] > 50


def test_what_is_not_an_image_is_encoded_as_it_is() -> None:
    stream = benchmark("seq-digits").stream()
    assert isinstance(stream, TaskStream)
    numbers = replace(stream, train_x=stream.train_x.double() * 3, test_x=stream.test_x.double())
    found = encode(replace(numbers, images=Images((0.5,), (0.5,))), nn.Flatten())
    assert found.train_x.dtype == torch.float32
    torch.testing.assert_close(found.train_x, numbers.train_x.flatten(1).float())


def test_progress_counts_examples(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("recollect.streams.reading.PATIENCE", -1.0)
    monkeypatch.setattr("recollect.streams.reading.EVERY", -1.0)
    assert [*with_progress(range(0, 60, 16), 60, "pictures", "encoding", 16)] == [0, 16, 32, 48]
    assert "encoding pictures: 48 of 60" in capsys.readouterr().err
