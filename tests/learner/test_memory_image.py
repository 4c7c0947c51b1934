"""A file is written from the live memory, in parts, while steps overwrite it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.learner.test_files import ASK_FOR_CLASSES, FIT, batch, network

from recollect import DataError, DERpp, DivergedError, Learner, Method
from recollect.learner.saving.memory_image import MemoryImage
from recollect.learner.saving.row_log import Earlier, RowLog
from recollect.memory import Memory
from recollect.train.guard import Guard

MEMORY, STEPS, LATER = 20, 8, 60
CLASSES = [f"class {number}" for number in range(3)]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of two examples, so that there are many."""
    for module in ("files", "learner.saving.memory_image"):
        monkeypatch.setattr(f"recollect.{module}.CHUNK", 32)


def learner_of(method: Method) -> Learner:
    classes = CLASSES if method.name in ASK_FOR_CLASSES else None
    learner = Learner(network(), method, memory=MEMORY, replay=4, lr=0.1, window=9, classes=classes)
    for step in range(STEPS):
        learner.observe(*batch(step))
    return learner


def written(learner: Learner, path: Path, meanwhile: Callable[[], object]) -> bytes:
    """Write a learner to a file, and call `meanwhile` after every part."""
    image = learner._image()
    image.pause = meanwhile
    image.write(path)
    return path.read_bytes()


def steps_of(learner: Learner) -> Callable[[], object]:
    """Return a function that takes one step at each of its first calls."""
    numbers: Iterator[int] = iter(range(STEPS, STEPS + LATER))

    def step() -> None:
        number = next(numbers, None)
        if number is not None:
            learner.observe(*batch(number))

    return step


@pytest.mark.parametrize("name", sorted(FIT))
def test_steps_between_the_parts_change_nothing_in_the_file(name: str, tmp_path: Path) -> None:
    learner = learner_of(FIT[name]())
    expected = learner._packed()
    assert written(learner, tmp_path / "file", steps_of(learner)) == expected
    assert learner.steps > STEPS + 10, "it learned meanwhile"
    assert learner._packed() != expected


def test_nor_does_a_step_between_reading_a_part_and_restoring_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = learner_of(DERpp())
    expected, step, take = learner._packed(), steps_of(learner), RowLog.take

    def take_late(log: RowLog) -> list[Earlier]:
        step()
        return take(log)

    monkeypatch.setattr(RowLog, "take", take_late)
    assert written(learner, tmp_path / "file", step) == expected
    assert learner.steps == STEPS + LATER


def test_nor_do_steps_that_fail_or_add_outputs(tmp_path: Path) -> None:
    learner = learner_of(DERpp())
    expected, number = learner._packed(), count()

    def meanwhile() -> None:
        step = next(number)
        if step % 3 == 0:
            with pytest.raises(DivergedError):
                learner.observe([[3e38, 3e38, -3e38, 3e38]] * 4, CLASSES + CLASSES[:1],
                                on_outlier="learn")  # fmt: skip
        else:
            learner.observe(batch(step)[0], [f"new {step // 5}"] * 4)

    assert written(learner, tmp_path / "file", meanwhile) == expected
    assert len(learner.classes) > 10


def test_a_file_that_fails_ends_its_log(tmp_path: Path) -> None:
    learner = learner_of(DERpp())
    engine = learner._now.engine
    assert engine is not None

    def full() -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(DataError, match="No space left on device"):
        written(learner, tmp_path / "file", full)
    assert not list(tmp_path.iterdir())
    assert not engine.guard._logs


def test_parts_are_read_into_one_small_buffer() -> None:
    memory = Memory(1, 100, {"x": ((4,), torch.float32), "wide": ((50,), torch.float32)})
    memory.tensors["x"].normal_()
    image = MemoryImage(memory, Guard([], memory, None))
    for name, size in (("x", 32), ("wide", 200)):  # a row is not divided
        parts = [(part.data_ptr(), part.nbytes, part.clone()) for part in image.parts(name)]
        assert len({where for where, _, _ in parts}) == 1
        assert max(found for _, found, _ in parts) == size
        assert torch.equal(torch.cat([part for _, _, part in parts]), memory.tensors[name])


def test_a_log_has_the_first_contents_of_each_row_once() -> None:
    log = RowLog(6)
    assert taken_from(log, ([3, 5, 5], [30, 50, 50]), ([5, 1, 3], [51, 10, 31]), ([1], [11])) == [
        ([3, 5], [30, 50]),
        ([1], [10]),
    ]
    assert taken_from(log) == []
    assert taken_from(log, ([1, 2], [12, 20])) == [([2], [20])]


def taken_from(
    log: RowLog, *overwritten: tuple[list[int], list[int]]
) -> list[tuple[list[int], list[int]]]:
    for rows, values in overwritten:
        log.append((torch.tensor([rows]), {"y": torch.tensor([values])}))
    return [(rows.tolist(), values["y"].tolist()) for rows, values in log.take()]


def test_rows_of_a_large_memory_are_restored_in_all_fields() -> None:
    """Whatever was overwritten between any two parts, compared with a copy."""
    memory = Memory(1, 999, {"y": ((), torch.int64), "x": ((3,), torch.float64)})
    memory.tensors["x"].normal_()
    memory.tensors["y"].random_(100)
    before, guard, rng = memory.copy(), Guard([], memory, None), np.random.default_rng(0)
    image = MemoryImage(memory, guard)
    for name in memory.tensors:
        found = []
        for part in image.parts(name):
            found.append(part.clone())
            chosen = np.unique(rng.integers(1000, size=(1, 7)))
            rows = torch.from_numpy(chosen)[None]
            guard.note_rows(rows)
            memory.write(rows, {n: -torch.ones_like(t) for n, t in memory.read(rows).items()})
        assert torch.equal(torch.cat(found), before.tensors[name])
    assert not torch.equal(memory.tensors["x"], before.tensors["x"])
