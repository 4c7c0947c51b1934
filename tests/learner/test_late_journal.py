"""The journal of late labels: kills, torn records, rotation, rollbacks, full disks, forgetting."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.learner.late_stream import examples, facts_of, made, module, state

from recollect import DataError, DivergedError, InputError, Learner
from recollect.learner import journalled


def served(learner: Learner, start: int, stop: int) -> None:
    """Predict and label, each label three predictions later, in calls of one to three labels."""
    x, y = examples(200)
    for row in range(start, stop):
        learner.predict(x[row], ids=f"id {row}")
        if row >= 3 and row % 3 == 0:
            rows = range(row - 3, row - 3 + 1 + row % 2)
            learner.label([f"id {each}" for each in rows], [y[each] for each in rows])


def killed(folder: Path, copy: Path) -> Learner:
    """What a process that resumes the folder would get, as if this one had just been killed."""
    shutil.copytree(folder, copy)
    found = Learner.resume(copy, module(), checkpoint_every=5)
    assert found is not None
    return found


def test_a_learner_killed_at_any_point_becomes_the_one_that_was_not(tmp_path: Path) -> None:
    learner, calm = made(tmp_path / "a", every=5), made()
    last = 0
    for stop in (2, 5, 30, 61):
        served(learner, last, stop)
        served(calm, last, stop)
        last = stop
        resumed = killed(tmp_path / "a", tmp_path / f"copy {stop}")
        assert state(resumed) == state(learner) == state(calm)
        assert resumed.pending == learner.pending
        served(resumed, stop, stop + 20)  # it goes on, also after its own kill
        again = killed(tmp_path / f"copy {stop}", tmp_path / f"again {stop}")
        assert state(again) == state(resumed)


def test_every_cut_of_the_journal_is_a_whole_number_of_its_records(tmp_path: Path) -> None:
    learner = made(tmp_path / "a")
    x, y = examples(6)
    path, ends, states = tmp_path / "a" / "00000001.journal", [], []
    for row in range(6):
        learner.predict(x[row], ids=row)
        ends.append(path.stat().st_size)
        states.append((state(learner), learner.pending))
        if row % 2:
            learner.label([row - 1, row], [y[row - 1], y[row]])
            ends.append(path.stat().st_size)
            states.append((state(learner), learner.pending))
    data = path.read_bytes()
    assert len(data) == ends[-1]
    for cut in [*ends, *(end - 1 for end in ends[1:]), *(end + 9 for end in ends[:-1])]:
        copy = tmp_path / f"cut {cut}"
        shutil.copytree(tmp_path / "a", copy)
        (copy / path.name).write_bytes(data[:cut])
        with Learner.resume(copy, module()) or made() as found:
            whole = max(n for n, end in enumerate(ends) if end <= cut)
            assert (state(found), found.pending) == states[whole]
            found.predict(x[0], ids="new")  # it can be appended to
        with Learner.resume(copy, module()) or made() as found:
            assert found.pending == states[whole][1] + 1


def test_repeats_are_ignored_after_a_kill(tmp_path: Path) -> None:
    x, y = examples(3)
    learner = made(tmp_path / "a")
    learner.predict(x, ids=["a", "b", "c"])
    learner.label(["a"], y[:1])
    resumed = killed(tmp_path / "a", tmp_path / "b")
    found = resumed.label(["a", "b"], y[:2])
    assert (found.learned, found.repeated) == (1, ("a",))


def test_a_label_that_was_journalled_and_not_learned_is_learned_at_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = examples(30)
    learner, calm = made(tmp_path / "a"), made()
    for each in (learner, calm):
        each.predict(x, ids=list(range(30)))
        each.label([0, 1], y[:2])
    with monkeypatch.context() as patch:
        patch.setattr("recollect.learner.engine.Engine.step", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            learner.label([2, 3], y[2:4])
    calm.label([2, 3], y[2:4])
    assert state(killed(tmp_path / "a", tmp_path / "b")) == state(calm)
    assert state(learner) != state(calm)
    learner.label([4], y[4:5])  # first it learns what was interrupted
    calm.label([4], y[4:5])
    assert state(learner) == state(calm)
    assert learner.label([2], y[2:3]).repeated == (2,)


def _interrupted(*given: object) -> float:
    raise KeyboardInterrupt


def test_a_step_that_was_refused_is_refused_again(tmp_path: Path) -> None:
    x, y = examples(30)
    learner = made(tmp_path / "a", lr=1e30)
    learner.predict(x, ids=list(range(30)))
    refused = 0
    for row in range(30):
        try:
            learner.label(row, y[row])
        except DivergedError:
            refused += 1
    assert 0 < refused < 30
    assert state(killed(tmp_path / "a", tmp_path / "b")) == state(learner)


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
        numbers.append([int(name[:8]) for name in facts_of(folder)])
        assert state(killed(folder, tmp_path / f"copy {stop}")) == state(calm)
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
    assert len(facts_of(folder)) < 20
    assert int(facts_of(folder)[0][:8]) > 1
    assert state(killed(folder, tmp_path / "b")) == state(calm)


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


def test_a_rollback_does_not_learn_what_came_after(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    x, y = examples(30)
    learner = made(folder)
    served(learner, 0, 20)
    old = learner.checkpoint(pin=True)
    served(learner, 20, 40)
    learner.checkpoint()
    waiting = learner.pending
    learner.close()

    back = Learner.load(old, module(), checkpoints=folder)
    reference = Learner.load(old, module())
    np.testing.assert_array_equal(back.predict_proba(x), reference.predict_proba(x))
    assert back.seen == reference.seen
    assert back.pending == waiting
    back.predict(x[0], ids="after")
    back.label("after", y[0])
    reference.observe(x[:1], y[:1], predicted=back.predict(x[:1]))
    np.testing.assert_array_equal(back.predict_proba(x), reference.predict_proba(x))
    resumed = killed(folder, tmp_path / "b")
    assert state(resumed) == state(back)
    assert resumed.pending == back.pending


def test_loading_the_newest_version_in_its_folder_learns_the_rest(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    learner = made(folder)
    served(learner, 0, 20)
    path = learner.checkpoint()
    served(learner, 20, 40)
    before = state(learner)
    learner.close()
    assert state(Learner.load(path, module())) != before
    assert state(Learner.load(path, module(), checkpoints=folder)) == before


def test_a_copy_in_another_folder_has_what_waits(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    learner = made(folder)
    served(learner, 0, 40)
    learner.close()
    other = Learner.resume(folder, module(), checkpoints=tmp_path / "b")
    assert other is not None
    assert state(other) == state(learner)
    served(other, 40, 60)
    other.close()
    again = Learner.resume(tmp_path / "b", module())
    assert again is not None
    assert (state(again), again.pending) == (state(other), other.pending)


def test_plain_steps_between_labels_are_lost_with_a_kill_and_no_label_is(tmp_path: Path) -> None:
    x, y = examples(10)
    learner, labels_only = made(tmp_path / "a"), made()
    for each in (learner, labels_only):
        each.predict(x, ids=list(range(10)))
        each.label(0, y[0])
    learner.observe(x[5:], y[5:])
    for each in (learner, labels_only):
        each.label([1, 2], y[1:3])
    assert state(killed(tmp_path / "a", tmp_path / "b")) == state(labels_only)


def test_a_journal_can_be_replayed_in_another_learner(tmp_path: Path) -> None:
    learner = made(tmp_path / "a", every=5)
    served(learner, 0, 50)
    fresh = made()
    assert fresh.replay_journal(tmp_path / "a") == learner.seen
    assert state(fresh) == state(learner)
    assert fresh.replay_journal(tmp_path / "a") == 0
    other = made(lr=0.01)
    other.replay_journal(tmp_path / "a")
    assert other.seen == learner.seen
    assert state(other) != state(learner)


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
    path = folder / facts_of(folder)[1]
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
    assert state(killed(tmp_path / "a", tmp_path / "b")) == state(learner)


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
    assert state(killed(tmp_path / "a", tmp_path / "b")) == state(learner)


def test_a_folder_of_another_learner_is_refused(tmp_path: Path) -> None:
    x, y = examples(2)
    with made(tmp_path) as learner:
        learner.observe(x, y)
        learner.checkpoint()
    other = made(tmp_path)
    with pytest.raises(InputError, match="holds the checkpoints of another learner"):
        other.predict(x, ids=[1, 2])
    assert other.pending == 0


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
    assert learner._forget_pending([f"id {row}" for row in gone]) == 2
    assert learner.pending == waiting - 2
    for path in folder.glob("*.journal"):
        data = path.read_bytes()
        assert not [
            row for row in gone if x[row].tobytes() in data or f'"id {row}"'.encode() in data
        ]
    assert learner.label("id 59", "class 0").unknown == ("id 59",)
    served(learner, 60, 80)
    resumed = killed(folder, tmp_path / "b")
    assert (state(resumed), resumed.pending) == (state(learner), learner.pending)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is forked here")
def test_a_forked_process_does_not_write_to_the_journal(tmp_path: Path) -> None:
    x, y = examples(3)
    learner = made(tmp_path)
    learner.predict(x, ids=[0, 1, 2])
    size = (tmp_path / "00000001.journal").stat().st_size
    child = os.fork()
    if not child:
        code = 1
        try:
            learner.label(0, y[0])
        except InputError as error:
            code = 0 if "forked" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (tmp_path / "00000001.journal").stat().st_size == size
    assert learner.label(0, y[0]).learned == 1
