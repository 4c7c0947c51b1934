"""Checkpoints are written while the learner goes on, and its life has an end."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.learner.test_files import batch, network

from recollect import DataError, DERpp, DivergedError, InputError, Learner
from recollect.learner.saving.image import Image

Write = Callable[[Image, Path], None]


class Gate:
    """Holds writers back until it is opened; then they write, or fail."""

    def __init__(self, real: Write) -> None:
        self._real = real
        self._open = threading.Event()
        self.arrived = threading.Event()
        self.error: Exception | None = None

    def write(self, image: Image, path: Path) -> None:
        self.arrived.set()
        assert self._open.wait(60)
        if self.error is not None:
            raise self.error
        self._real(image, path)

    def open(self) -> None:
        self._open.set()

    def close(self) -> None:
        self._open.clear()
        self.arrived.clear()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    found = Gate(Image.write)
    monkeypatch.setattr(Image, "write", lambda image, path: found.write(image, path))
    yield found
    found.open()


def learner_in(folder: Path, every: int = 2) -> Learner:
    return Learner(
        network(), DERpp(), memory=8, lr=0.1, checkpoints=folder, checkpoint_every=every, keep=9
    )


def on_disk(learner: Learner) -> int | None:
    return learner.saved


def saved_in(folder: Path) -> list[int]:
    return [version.seen for version in Learner.versions(folder)]


def test_observe_returns_before_a_checkpoint_is_written(gate: Gate, tmp_path: Path) -> None:
    learner = learner_in(tmp_path)
    learner.observe(*batch(0))
    learner.observe(*batch(1))
    assert gate.arrived.wait(60)
    assert on_disk(learner) is None, "nothing is on the disk yet"
    for step in range(2, 6):
        learner.observe(*batch(step))
        learner.predict(batch(9)[0])
    assert (learner.seen, learner.saved, saved_in(tmp_path)) == (24, None, [])
    gate.open()
    learner._checkpoints.wait()
    assert (on_disk(learner), saved_in(tmp_path)) == (8, [8])
    learner.observe(*batch(6))  # those that were due meanwhile are made up for, once
    learner._checkpoints.wait()
    assert (on_disk(learner), saved_in(tmp_path)) == (28, [28, 8])
    learner.close()


def test_one_that_was_due_is_there_at_the_end(gate: Gate, tmp_path: Path) -> None:
    learner = learner_in(tmp_path)
    for step in range(5):
        learner.observe(*batch(step))
    gate.open()
    learner.close()
    assert (learner.seen, learner.saved, saved_in(tmp_path)) == (20, 20, [20, 8])


@pytest.mark.parametrize("later", [1, 3, 12])
def test_a_checkpoint_is_the_state_at_its_step_however_late_it_is_written(
    later: int, gate: Gate, tmp_path: Path
) -> None:
    """Steps overwrite the memory and grow the network meanwhile."""
    learner = learner_in(tmp_path, every=100)
    for step in range(3):
        learner.observe(*batch(step))
    expected = learner._packed()
    learner.notes["later"] = False
    path = learner.checkpoint(wait=False)
    learner.notes["later"] = True
    for step in range(3, 3 + later):
        learner.observe(*batch(step))
    with pytest.raises(InputError, match="finite"):
        learner.observe([[float("nan")] * 4], ["class 0"], on_outlier="raise")
    if later == 12:
        learner.observe(batch(0)[0], [f"new {number}" for number in range(4)])
        learner.observe(batch(1)[0], [f"newer {number}" for number in range(4)])
        learner.observe(batch(2)[0], [f"newest {number}" for number in range(4)])
    gate.open()
    learner.close()
    found = Learner.load(path, network())
    assert found.notes == {"later": False}
    found.notes = {}
    assert found._packed() == expected


def test_a_step_that_is_undone_meanwhile_changes_nothing(gate: Gate, tmp_path: Path) -> None:
    learner = learner_in(tmp_path, every=100)
    for step in range(5):
        learner.observe(*batch(step))
    expected = learner._packed()
    path = learner.checkpoint(wait=False)
    with pytest.raises(DivergedError, match="finite"):
        learner.observe([[3e38, 3e38, -3e38, 3e38]] * 4, batch(1)[1], on_outlier="learn")
    gate.open()
    learner.close()
    assert Learner.load(path, network())._packed() == expected == learner._packed()


def test_a_failed_checkpoint_raises_at_the_next_observe(gate: Gate, tmp_path: Path) -> None:
    learner = learner_in(tmp_path, every=1)
    gate.error = DataError("no space is left")
    learner.observe(*batch(0))
    gate.open()
    learner._checkpoints.wait()
    with pytest.raises(DataError, match="the step was learned, but not saved: no space is left"):
        learner.observe(*batch(1))
    assert (learner.seen, learner.saved) == (8, None)
    gate.error = None
    learner.observe(*batch(2))  # it tries again
    learner.flush()
    assert on_disk(learner) == 12
    gate.error = DataError("no space is left")
    learner.observe(*batch(3))
    with pytest.raises(DataError, match="no space is left"):
        learner.close()
    assert on_disk(learner) == 12
    learner.close()


def test_closing_waits_and_releases(gate: Gate, tmp_path: Path) -> None:
    with learner_in(tmp_path) as learner:
        learner.observe(*batch(0))
        learner.observe(*batch(1))
        threading.Timer(0.2, gate.open).start()
    assert on_disk(learner) == 8
    x, y = batch(2)
    with pytest.raises(InputError, match="closed"):
        learner.observe(x, y)
    with pytest.raises(InputError, match="closed"):
        learner.checkpoint(tmp_path)
    assert len(learner.predict(x)) == 4
    assert learner.metrics().seen == 8
    again = Learner.resume(tmp_path, network())
    assert again is not None
    again.close()


def test_so_does_garbage_collection(
    gate: Gate, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    learner = learner_in(tmp_path)
    learner.observe(*batch(0))
    learner.observe(*batch(1))
    threading.Timer(0.2, gate.open).start()
    del learner
    gc.collect()
    again = Learner.resume(tmp_path, network(), checkpoint_every=1)
    assert again is not None
    assert again.seen == 8
    gate.error = DataError("no space is left")
    again.observe(*batch(2))
    with caplog.at_level(logging.ERROR, "recollect"):
        del again
        gc.collect()
    assert "a checkpoint could not be saved: no space is left" in caplog.text


def test_saving_to_a_file_does_not_hold_up_the_others(gate: Gate, tmp_path: Path) -> None:
    learner = Learner(network(), DERpp(), memory=8)
    learner.observe(*batch(0))
    saving = threading.Thread(target=learner.save, args=(tmp_path / "file",))
    saving.start()
    assert gate.arrived.wait(60)
    expected = learner._packed()
    learner.observe(*batch(1))
    assert on_disk(learner) is None
    gate.open()
    saving.join(60)
    assert on_disk(learner) == 4
    assert (tmp_path / "file").read_bytes() == expected


def test_notes_that_cannot_be_saved_are_refused_at_their_step(tmp_path: Path) -> None:
    learner = learner_in(tmp_path, every=1)
    learner.notes = {"wrong": []}
    learner.notes["wrong"].append(object())
    with pytest.raises(DataError, match=r"learned, but not saved: .*plain JSON"):
        learner.observe(*batch(0))
    assert (learner.seen, learner.saved) == (4, None)


def test_a_writing_thread_rests_until_somebody_waits_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("recollect.learner.saving.image.REST", 1e9)
    learner = learner_in(tmp_path)
    for step in range(5):
        learner.observe(*batch(step))
    assert on_disk(learner) is None, "it rests after its first piece of work"
    learner.flush()
    assert saved_in(tmp_path) == [20, 8]
    learner.close()
    resumed = Learner.resume(tmp_path, network())
    assert resumed is not None
    assert resumed.seen == 20
