"""Versions in a folder: rollbacks that last, pins, how many stay, and one owner."""

from __future__ import annotations

import errno
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.learner.test_checkpoints import names, observe
from tests.learner.test_files import batch, network

import recollect
from recollect import ER, DERpp, InputError, Learner
from recollect.learner.saving import folder_lock as lock_module
from recollect.learner.saving.folder_lock import FolderLock


def learner_in(folder: Path, steps: int, keep: int | None = None) -> Learner:
    """A learner with a checkpoint after every step."""
    learner = Learner(
        network(), DERpp(), memory=10, checkpoints=folder, checkpoint_every=1, keep=keep
    )
    for step in range(steps):
        observe(learner, step)
    return learner


def seen_by_resume(folder: Path) -> int:
    learner = Learner.resume(folder, network())
    assert learner is not None
    with learner:
        return learner.seen


def test_a_rollback_survives_restarts(tmp_path: Path) -> None:
    learner_in(tmp_path, 3, keep=9).close()
    assert seen_by_resume(tmp_path) == 12
    older = tmp_path / "000000000000004.recollect"
    with Learner.load(older, network(), checkpoints=tmp_path, checkpoint_every=1) as back:
        assert seen_in(tmp_path) == [12, 8, 4], "to look at an older version changes nothing"
        observe(back, 10)
        expected = back._packed()
    again = Learner.resume(tmp_path, network())
    assert again is not None
    with again:
        assert again.seen == 8
        assert again._packed() == expected
    found = Learner.versions(tmp_path)
    assert [(each.seen, each.line, each.abandoned) for each in found] == [
        (8, 1, False), (4, 0, False), (12, 0, True), (8, 0, True),
    ]  # fmt: skip


def seen_in(folder: Path) -> list[int]:
    return [each.seen for each in Learner.versions(folder) if not each.abandoned]


def test_a_damaged_version_after_a_rollback_does_not_bring_back_what_was_abandoned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    learner_in(tmp_path, 3, keep=9).close()
    older = tmp_path / "000000000000004.recollect"
    with Learner.load(older, network(), checkpoints=tmp_path, checkpoint_every=1) as back:
        observe(back, 10)
    (tmp_path / "000000000000008-1.recollect").write_bytes(b"")
    with caplog.at_level(logging.WARNING, "recollect"):
        assert seen_by_resume(tmp_path) == 4
    assert "was skipped, and the previous one is loaded" in caplog.text
    assert "000000000000008-1.recollect" in caplog.text


def test_a_rollback_of_a_rollback(tmp_path: Path) -> None:
    learner_in(tmp_path, 3, keep=20).close()
    with Learner.load(
        tmp_path / "000000000000004.recollect", network(), checkpoints=tmp_path, checkpoint_every=1
    ) as back:
        for step in (10, 11, 12):
            observe(back, step)
    assert seen_in(tmp_path) == [16, 12, 8, 4]
    # Back to what was abandoned first:
    with Learner.load(
        tmp_path / "000000000000008.recollect", network(), checkpoints=tmp_path, checkpoint_every=1
    ) as forth:
        observe(forth, 13)
    present = [each for each in Learner.versions(tmp_path) if not each.abandoned]
    assert [(each.seen, each.line) for each in present] == [(12, 2), (8, 0), (4, 0)]
    assert seen_by_resume(tmp_path) == 12


def test_going_on_from_the_newest_is_no_rollback(tmp_path: Path) -> None:
    learner_in(tmp_path, 2).close()
    newest = Learner.versions(tmp_path)[0].path
    with Learner.load(newest, network(), checkpoints=tmp_path, checkpoint_every=1) as learner:
        observe(learner, 2)
    assert names(tmp_path) == [4, 8, 12]


def test_a_default_prunes_nothing_that_another_setting_wanted(tmp_path: Path) -> None:
    learner_in(tmp_path, 6, keep=9).close()
    older = tmp_path / "000000000000004.recollect"
    before = {path.name for path in tmp_path.glob("*.recollect")}
    with Learner.load(older, network(), checkpoints=tmp_path, checkpoint_every=1) as again:
        for step in range(3):
            observe(again, step)
    after = {path.name for path in tmp_path.glob("*.recollect")}
    assert before <= after
    assert len(after) == 9
    with Learner.load(older, network(), checkpoints=tmp_path, checkpoint_every=1, keep=2) as again:
        observe(again, 5)
    assert len(list(tmp_path.glob("*.recollect"))) == 2, "keep=2 agrees to it"


def test_nor_in_a_folder_that_does_not_say_what_was_wanted(tmp_path: Path) -> None:
    """As in folders of before there were notes."""
    learner_in(tmp_path, 6, keep=9).close()
    (tmp_path / "versions.json").unlink()
    resumed = Learner.resume(tmp_path, network(), checkpoint_every=1)
    assert resumed is not None
    with resumed:
        observe(resumed, 6)
    assert names(tmp_path) == [8, 12, 16, 20, 24, 28]


def test_pinned_versions_stay(tmp_path: Path) -> None:
    learner = learner_in(tmp_path, 2, keep=1)
    pinned = learner.checkpoint(pin=True)
    for step in range(2, 5):
        observe(learner, step)
    assert names(tmp_path) == [8, 20]
    learner.pin(Learner.versions(tmp_path)[0].path)
    for step in range(5, 7):
        observe(learner, step)
    assert names(tmp_path) == [8, 20, 28]
    assert [each.pinned for each in Learner.versions(tmp_path)] == [False, True, True]
    learner.pin(pinned, pinned=False)
    observe(learner, 7)
    assert names(tmp_path) == [20, 32]
    with pytest.raises(InputError, match="has no version"):
        learner.pin(pinned)


def test_a_second_learner_of_the_process_is_refused(tmp_path: Path) -> None:
    first = learner_in(tmp_path, 1)
    with pytest.raises(
        InputError, match=rf"in use by another learner of this process \({os.getpid()}\)"
    ):
        Learner(network(), ER(), checkpoints=tmp_path)
    with pytest.raises(InputError, match="in use"):
        Learner.resume(tmp_path, network())
    with pytest.raises(InputError, match="in use"):
        Learner.load(Learner.versions(tmp_path)[0].path, network(), checkpoints=tmp_path)
    other = Learner(network(), ER())
    other.observe(*batch(0))
    with pytest.raises(InputError, match="in use"):
        other.checkpoint(tmp_path)
    first.close()
    assert seen_by_resume(tmp_path) == 4


OTHER = """
import sys
from recollect import ER, MLP, InputError, Learner
try:
    Learner(MLP(4, 1), ER(), checkpoints=sys.argv[1])
except InputError as error:
    print(error)
"""


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")

    def other() -> str:
        source = str(Path(recollect.__file__).parents[1])
        env = {**os.environ, "PYTHONPATH": source}
        words = [sys.executable, "-c", OTHER, str(tmp_path)]
        done = subprocess.run(words, capture_output=True, text=True, env=env, check=True)
        return done.stdout

    with learner_in(tmp_path, 1):
        assert f"is in use by process {os.getpid()} on " in other()
    assert other() == ""


def test_a_file_system_without_locks_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fcntl = pytest.importorskip("fcntl")

    def flock(file: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    lock_module._say_unlocked.cache_clear()
    with caplog.at_level(logging.WARNING, "recollect"):
        for _ in range(2):
            with learner_in(tmp_path / "state", 1), pytest.raises(InputError, match="this process"):
                FolderLock(tmp_path / "state")
            for path in (tmp_path / "state").glob("*.recollect"):
                path.unlink()
    (record,) = caplog.records
    assert "cannot be locked (No locks available)" in record.getMessage()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked here")
def test_a_forked_process_has_no_right_to_the_folder(tmp_path: Path) -> None:
    learner = learner_in(tmp_path, 1)
    child = os.fork()
    if not child:
        code = 1
        try:
            try:
                learner.checkpoint()
            except InputError:
                code = 0
            learner._checkpoints.let_go()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with pytest.raises(InputError, match="in use"):
        Learner.resume(tmp_path, network())
    observe(learner, 1)
    assert learner.saved == 8


def test_what_fails_leaves_the_folder_free(tmp_path: Path) -> None:
    learner_in(tmp_path, 1).close()
    with pytest.raises(InputError, match="network"):
        Learner.resume(tmp_path, recollect.MLP(4, 1, hidden=(9,)))
    with pytest.raises(InputError, match="was created with"):
        Learner(network(), DERpp(), memory=11).resumed(tmp_path)
    assert seen_by_resume(tmp_path) == 4
