"""A relative folder of checkpoints stays the same folder when the working directory changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.learner.late_stream import examples, journal_files, made, module

from recollect import Learner


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to change to; the working directory is its parent."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


def test_checkpoints_go_to_the_folder_of_the_first_one(elsewhere: Path) -> None:
    x, y = examples(20)
    with made(Path("state"), every=1) as learner:
        learner.observe(x, y)
        learner.flush()
        os.chdir(elsewhere)
        learner.observe(x, y)
        learner.flush()
        assert learner.saved == 40
        assert learner.checkpoint() == elsewhere.parent / "state" / "000000000000040.recollect"
    assert list(elsewhere.iterdir()) == []


def test_no_late_label_goes_to_another_folder(elsewhere: Path) -> None:
    x, y = examples(6)
    with made(Path("state")) as learner:
        learner.predict(x, ids=[0, 1, 2, 3, 4, 5])
        os.chdir(elsewhere)
        learner.label([0, 1], y[:2])
        learner.checkpoint()
        assert learner.forget(5).files
        assert learner.label(2, y[2]).learned == 1
        expected = learner._packed()
    assert list(elsewhere.iterdir()) == []
    os.chdir(elsewhere.parent)
    again = Learner.resume("state", module())
    assert again is not None
    with again:
        assert again._packed() == expected
        assert (again.seen, again.pending) == (3, 2)


def test_a_relative_folder_continues_its_journal(elsewhere: Path) -> None:
    x, y = examples(3)
    with made(Path("state")) as learner:
        learner.predict(x, ids=[0, 1, 2])
    again = Learner.resume("state", module())
    assert again is not None
    with again:
        os.chdir(elsewhere)
        again.label(0, y[0])
    assert journal_files(elsewhere.parent / "state") == ["00000001.journal"]
