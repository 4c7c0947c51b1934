"""Drift alarms: when they are raised, what they tell, and that a file continues them exactly."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from river import drift
from river.drift import binary

from recollect import ER, MLP, DataError, InputError, Learner
from recollect.files import pack, unpack
from recollect.learner.monitoring.drift import FAMILIAR, HORIZON, NAMES, Detector, Drift

MET = np.full(3, FAMILIAR)


def errors(rates: list[tuple[int, float]], seed: int = 0) -> np.ndarray:
    """Whether predictions are wrong, so many with each rate."""
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.random(n) < rate for n, rate in rates])


def fed(state: Drift, wrong: np.ndarray, start: int = 0, batch: int = 10) -> Drift:
    for at in range(start, len(wrong), batch):
        guessed = wrong[at : at + batch].astype(np.int64)
        state = state.after(np.zeros(len(guessed), np.int64), guessed, MET, at)
    return state


def rotated(length: int, changes: int, seed: int = 0) -> Iterator[tuple[np.ndarray, list[str]]]:
    """Blobs of four classes whose labels are exchanged after every `length` examples."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(4, 8)) * 1.5
    for part in range(changes + 1):
        for _ in range(length // 20):
            y = rng.integers(0, 4, 20)
            x = centres[y] + rng.normal(size=(20, 8))
            yield x.astype(np.float32), ["abcd"[(n + part) % 4] for n in y]


def learner(**arguments: Any) -> Learner:
    torch.manual_seed(0)
    return Learner(MLP(8, 1, (16,)), ER(), memory=100, replay=10, lr=0.1, **arguments)


def test_changes_are_found_in_time_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    watched = learner(drift="ADWIN")
    with caplog.at_level(logging.WARNING, "recollect.learner"):
        for x, y in rotated(1000, 4):
            watched.observe(x, y)
    at = [alarm.number for alarm in watched.alarms]
    for change in (1000, 2000, 3000, 4000):
        assert [n for n in at if change <= n < change + 500], (change, at)
    assert all(n % 1000 < 500 and n >= 1000 for n in at)
    assert watched.metrics().alarms == len(at)
    assert [r.message for r in caplog.records if "drift alarm at example" in r.message]
    assert all(alarm.after > alarm.before for alarm in watched.alarms)


@pytest.mark.parametrize("seed", range(3))
def test_without_a_change_there_is_no_alarm(seed: int) -> None:
    calm = Detector.of("ADWIN")
    for rate in (0.0, 0.05, 0.3):
        falling = [(200, 0.9), (300, 0.6), (1000, min(2 * rate, 0.5)), (10_000, rate)]
        assert fed(Drift(calm), errors(falling, seed)).alarms <= 1
    assert fed(Drift(calm), errors([(4000, 0.6), (4000, 0.1)], seed)).alarms == 0  # it falls


@pytest.mark.parametrize("name", NAMES)
def test_every_detector_raises_an_alarm(name: str) -> None:
    found = fed(Drift(Detector.of(name)), errors([(1000, 0.05), (500, 0.7)]))
    assert found.alarms >= 1
    assert 1000 <= found.last[-1].number < 1500
    assert found.last[-1].before < 0.2 < found.last[-1].after


def test_classes_that_are_new_say_nothing() -> None:
    state = fed(Drift(Detector.of("ADWIN")), errors([(2000, 0.02)]))
    wrong = np.ones(300, np.int64)
    few = np.array([2000, FAMILIAR - 1, 0])
    for label, guess in ((1, 0), (0, 1), (2, 0), (5, 0), (0, 5)):  # of 5 nothing was seen
        after = state.after(wrong * label, wrong * guess, few, 2000)
        assert len(after.outcomes) == len(state.outcomes), (label, guess)
    assert state.after(wrong * 0, wrong * -1, few, 2000).alarms == 1  # no prediction is an error


@pytest.mark.parametrize("cut", [5, 999, 2100, 2 * HORIZON - 7, 2 * HORIZON + 3])
def test_a_state_from_a_file_goes_on_as_if_it_had_not_been_saved(cut: int) -> None:
    wrong = errors([(1000, 0.3), (1000, 0.05), (9000, 0.02), (1000, 0.2), (3000, 0.1)])
    whole = fed(Drift(Detector.of("ADWIN")), wrong)
    first = fed(Drift(Detector.of("ADWIN")), wrong[: cut // 10 * 10])
    saved = Drift.restored(first.facts(), first.tensors())
    again = fed(saved, wrong, cut // 10 * 10)
    assert whole.alarms >= 1
    assert again.facts() == whole.facts()
    assert np.array_equal(again.outcomes, whole.outcomes)
    assert len(whole.outcomes) < 2 * HORIZON


def test_a_learner_that_is_saved_raises_the_same_alarms(tmp_path: Path) -> None:
    batches = list(rotated(1000, 2))
    whole, part = learner(drift="ADWIN"), learner(drift="ADWIN")
    for number, (x, y) in enumerate(batches):
        whole.observe(x, y)
        if number % 23 == 22:
            part.save(tmp_path / "part")
            part = Learner.load(tmp_path / "part", MLP(8, 1, (16,)))
        part.observe(x, y)
    assert len(whole.alarms) >= 2
    assert part.alarms == whole.alarms
    assert part.metrics() == whole.metrics()
    assert part.drift == whole.drift


def test_a_step_that_fails_changes_no_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = list(rotated(1000, 1))
    plain, shaken = learner(drift="ADWIN"), learner(drift="ADWIN")
    kept = Drift.after

    def failing(*arguments: Any) -> Drift:
        kept(*arguments)
        raise RuntimeError("interrupted")

    for number, (x, y) in enumerate(batches):
        plain.observe(x, y)
        if number % 20 == 0:
            with monkeypatch.context() as patch:
                patch.setattr(Drift, "after", failing)
                with pytest.raises(RuntimeError, match="interrupted"):
                    shaken.observe(x, y)
        shaken.observe(x, y)
    assert plain.alarms
    assert shaken.alarms == plain.alarms
    assert shaken.metrics() == plain.metrics()


def test_a_detector_can_be_set_changed_and_ended() -> None:
    watched = learner()
    assert watched.drift is None
    assert watched.alarms == ()
    watched.drift = binary.DDM(drift_threshold=4.0)
    assert watched.drift is not None
    assert watched.drift.settings["drift_threshold"] == 4.0
    watched.drift = "page_hinkley"
    assert str(watched.drift).startswith("PageHinkley(")
    watched.drift = None
    assert watched.drift is None


def test_alarms_do_not_change_what_is_learned() -> None:
    made: Any = drift.ADWIN
    one, other = learner(), learner(drift=made(delta=0.05))
    for x, y in rotated(300, 1):
        assert one.observe(x, y) == other.observe(x, y)


def test_predictions_that_were_made_earlier_are_what_counts() -> None:
    watched = Learner(MLP(8, 1, (16,)), ER(), drift="ADWIN")
    for x, y in rotated(1000, 0):
        watched.observe(x, y, predicted=y)
    assert not watched.alarms
    for x, y in rotated(300, 0, seed=1):
        watched.observe(x, y, predicted=[{"a": "b", "b": "c"}.get(label, "a") for label in y])
    assert watched.metrics().alarms == 1


@pytest.mark.parametrize("given", ["adwin2", "FHDDM", 3, drift.DummyDriftDetector(), object()])
def test_what_is_not_a_detector_is_refused(given: Any) -> None:
    with pytest.raises(InputError, match="is not a supported drift detector of River: give one"):
        learner(drift=given)


def test_random_numbers_need_a_seed() -> None:
    with pytest.raises(InputError, match="give it a seed"):
        learner(drift=drift.KSWIN())


@pytest.mark.parametrize(
    "change", [{"name": "os.system"}, {"alarms": -1}, {"alarms": 0, "last": [[1, 0.1, 0.2]]}]
)
def test_a_file_that_was_tampered_with_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    watched = learner(drift="ADWIN")
    watched.save(tmp_path / "file")
    facts, tensors = unpack((tmp_path / "file").read_bytes())
    facts["drift"] |= change
    (tmp_path / "file").write_bytes(pack(facts, tensors))
    with pytest.raises((DataError, InputError)):
        Learner.load(tmp_path / "file", MLP(8, 1, (16,)))


@pytest.mark.parametrize("said", [False, 0, "", [], {}])
def test_a_file_without_a_sound_state_of_alarms_is_refused(said: Any, tmp_path: Path) -> None:
    learner().save(tmp_path / "file")
    facts, tensors = unpack((tmp_path / "file").read_bytes())
    facts["drift"] = said
    (tmp_path / "file").write_bytes(pack(facts, tensors))
    with pytest.raises(DataError):
        Learner.load(tmp_path / "file", MLP(8, 1, (16,)))
