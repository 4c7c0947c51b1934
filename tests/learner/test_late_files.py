"""The files of a journal: new ones, old ones, damaged ones, full disks, and what is forgotten."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.learner.late_stream import examples, journal_files, killed, made, module, served, state

from recollect import DataError, InputError, Learner
from recollect.learner.late import journalled, recovery


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a journal are short."""
    monkeypatch.setattr(journalled, "SEGMENT", 3000)
    return


@pytest.mark.usefixtures("short")
def test_old_files_go_and_what_waits_stays(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    learner, calm = made(folder, every=3), made()
    numbers = []
    for stop in range(20, 160, 20):
        served(learner, stop - 20, stop)
        served(calm, stop - 20, stop)
        learner.flush()
        numbers.append([int(name[:8]) for name in journal_files(folder)])
        assert state(killed(learner, tmp_path / f"copy {stop}")) == state(calm)
    assert numbers[-1][0] > 3
    assert max(map(len, numbers)) < 8
    assert learner.pending == calm.pending > 40


@pytest.mark.usefixtures("short")
def test_without_checkpoint_every_a_long_journal_makes_checkpoints(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    learner, calm = made(folder, pending=5), made(pending=5)
    served(learner, 0, 100)
    served(calm, 0, 100)
    learner.flush()
    assert len(journal_files(folder)) < 20
    assert int(journal_files(folder)[0][:8]) > 1
    assert state(killed(learner, tmp_path / "b")) == state(calm)


@pytest.mark.usefixtures("short")
def test_a_damaged_newest_version_loses_no_label(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    learner = made(folder, every=3)
    served(learner, 0, 100)
    learner.flush()
    shutil.copytree(folder, tmp_path / "b")
    newest = Learner.versions(tmp_path / "b")[0].path
    newest.write_bytes(newest.read_bytes()[:-100])
    found = Learner.resume(tmp_path / "b", module())
    assert found is not None
    assert state(found) == state(learner)


@pytest.mark.usefixtures("short")
def test_a_journal_whose_beginning_is_gone_is_not_replayed_in_a_new_learner(
    tmp_path: Path,
) -> None:
    learner = made(tmp_path / "a", every=3)
    served(learner, 0, 90)
    with pytest.raises(InputError, match="begins after label"):
        made().replay_journal(tmp_path / "a")


def test_damage_within_an_older_file_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journalled, "SEGMENT", 3000)
    monkeypatch.setattr(journalled, "remove_old", lambda folder: None)
    folder = tmp_path / "a"
    learner = made(folder)
    served(learner, 0, 60)
    learner.close()
    path = folder / journal_files(folder)[1]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"00000002\.journal is damaged at byte"):
        made().replay_journal(folder)


def test_a_full_disk_is_an_error_and_nothing_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = examples(5)
    learner = made(tmp_path / "a")
    learner.predict(x[:3], ids=[0, 1, 2])
    learner.label(0, y[0])
    before = state(learner)
    real = os.write

    def half(file: int, data: memoryview) -> int:
        if len(data) < 200:
            raise OSError(28, "No space left on device")
        return real(file, data[:100])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half)
        for call in (
            lambda: learner.label(1, y[1]),
            lambda: learner.predict(x[3], ids=3),
        ):
            with pytest.raises(DataError, match="No space left"):
                call()
    assert (state(learner), learner.pending) == (before, 2)
    assert learner.label(1, y[1]).learned == 1
    assert state(killed(learner, tmp_path / "b")) == state(learner)


def test_a_disk_that_does_not_confirm_is_an_error_after_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = examples(5)
    learner = made(tmp_path / "a")
    learner.predict(x, ids=list(range(5)))
    learner.label(0, y[0])

    def failing(file: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        with pytest.raises(DataError, match="learned, but not saved"):
            learner.label(1, y[1])
    assert learner.seen == 2
    assert learner.label([1, 2], y[1:3]).learned == 1  # in a new file, after a checkpoint
    assert state(killed(learner, tmp_path / "b")) == state(learner)


def test_what_is_forgotten_is_in_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journalled, "SEGMENT", 3000)
    monkeypatch.setattr(journalled, "remove_old", lambda folder: None)
    folder = tmp_path / "a"
    learner = made(folder, pending=100)
    served(learner, 0, 60)
    x, _ = examples(200)
    gone = [0, 6, 32, 59]  # labelled, and waiting
    found = {row: any(x[row].tobytes() in path.read_bytes() for path in folder.glob("*.journal"))
             for row in gone}  # fmt: skip
    assert all(found.values())
    waiting = learner.pending
    named = [f"id {row}" for row in gone]
    stored = {row.id for row in learner.remembered()} & set(named)
    found_now = learner.forget(named)
    assert (found_now.rows, found_now.unknown) == (
        len(stored), [each for each in named[:2] if each not in stored],
    )  # fmt: skip
    assert not {row.id for row in learner.remembered()} & set(named)
    assert learner.pending == waiting - 2
    assert found_now.waiting == 2
    assert "removed from memory, and 2 that waited for a label." in str(found_now)
    newest = max(folder.glob("*.recollect"), key=lambda path: path.stat().st_mtime_ns)
    for path in [newest, *folder.glob("*.journal")]:
        data = path.read_bytes()
        assert not [
            row for row in gone if x[row].tobytes() in data or f'"id {row}"'.encode() in data
        ]
    assert learner.label("id 59", "class 0").unknown == ("id 59",)
    served(learner, 60, 80)
    resumed = killed(learner, tmp_path / "b")
    assert (state(resumed), resumed.pending) == (state(learner), learner.pending)


def test_a_journal_that_cannot_be_written_anew_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner, (x, _) = made(tmp_path / "a"), examples(2)
    learner.predict(x, ids=["ann", "bob"])

    def full(*given: Any, **named: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(recovery, "rewrite", full)
        with pytest.raises(DataError, match=r"still has them: No space left.* call forget again"):
            learner.forget("ann")
    learner.forget("ann")
    journal = (tmp_path / "a" / "00000001.journal").read_bytes()
    assert x[0].tobytes() not in journal
    assert x[1].tobytes() in journal


def test_the_files_to_delete_are_not_those_that_are_needed(tmp_path: Path) -> None:
    learner, (x, y) = made(tmp_path / "a", keep=5), examples(10)
    learner.observe(x[:5], y[:5])
    old = learner.checkpoint()
    learner.predict(x[5:], ids=list(range(5)))
    learner.label([0, 1], y[5:7])
    learner.checkpoint()
    result = learner.forget([1, 2])  # which makes a checkpoint of the same step
    assert result.files == (old,)
    for path in result.files:
        path.unlink()
    resumed = killed(learner, tmp_path / "b")
    assert (state(resumed), resumed.pending) == (state(learner), 2)
