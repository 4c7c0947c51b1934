"""The journal of late labels: a learner that is killed becomes the one that was not."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.learner.late_stream import examples, killed, made, module, served, state

from recollect import DivergedError, InputError, Learner


def test_a_learner_killed_at_any_point_becomes_the_one_that_was_not(tmp_path: Path) -> None:
    learner, calm = made(tmp_path / "a", every=5), made()
    last = 0
    for stop in (2, 5, 30, 61):
        served(learner, last, stop)
        served(calm, last, stop)
        last = stop
        resumed = killed(learner, tmp_path / f"copy {stop}")
        assert state(resumed) == state(learner) == state(calm)
        assert resumed.pending == learner.pending
        served(resumed, stop, stop + 20)  # it goes on, also after its own kill
        again = killed(resumed, tmp_path / f"again {stop}")
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
    resumed = killed(learner, tmp_path / "b")
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
        patch.setattr("recollect.learner.engine.engine.Engine.step", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            learner.label([2, 3], y[2:4])
    calm.label([2, 3], y[2:4])
    assert state(killed(learner, tmp_path / "b")) == state(calm)
    assert state(learner) != state(calm)
    learner.label([4], y[4:5])  # first it learns what was interrupted
    calm.label([4], y[4:5])
    assert state(learner) == state(calm)
    assert learner.label([2], y[2:3]).repeated == (2,)


def _interrupted(*given: object, **how: object) -> float:
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
    assert state(killed(learner, tmp_path / "b")) == state(learner)


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
    resumed = killed(back, tmp_path / "b")
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
    assert state(killed(learner, tmp_path / "b")) == state(labels_only)


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


def test_a_folder_of_another_learner_is_refused(tmp_path: Path) -> None:
    x, y = examples(2)
    with made(tmp_path) as learner:
        learner.observe(x, y)
        learner.checkpoint()
    other = made(tmp_path)
    with pytest.raises(InputError, match="contains the checkpoints of another learner"):
        other.predict(x, ids=[1, 2])
    assert other.pending == 0


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
