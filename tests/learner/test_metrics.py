"""Metrics from counts are those of scikit-learn and River on the same predictions."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from river import metrics as river
from sklearn import metrics as sk

from recollect import ER, MLP, Learner
from recollect.learner.monitoring.class_record import Record

FILES = Path(__file__).with_name("files")


def recorded(y: np.ndarray, guesses: np.ndarray, window: int, batch: int) -> Record:
    record = Record.empty(window)
    for start in range(0, len(y), batch):
        rows = slice(start, start + batch)
        record = record.after(y[rows], guesses[rows])
    return record


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("window", "batch"), [(50, 7), (7, 20), (10, 1), (500, 64), (10, 10)])
def test_they_are_scikit_learns(seed: int, window: int, batch: int) -> None:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 5, 300) * (rng.random(300) < 0.6)  # class 0 is frequent
    guesses = np.where(rng.random(300) < 0.5, y, rng.integers(-1, 7, 300))  # 5 and 6 never occur
    record = recorded(y, guesses, window, batch)
    found = record.metrics((*"abcdefg",))
    assert found.accuracy == pytest.approx(sk.accuracy_score(y, guesses))
    assert found.recent == pytest.approx(sk.accuracy_score(y[-window:], guesses[-window:]))
    recalls = sk.recall_score(y, guesses, labels=np.unique(y), average="macro")
    assert found.balanced == pytest.approx(recalls)
    there = sorted({*y.tolist(), *guesses.tolist()} - {-1})
    f1 = sk.f1_score(y, guesses, labels=there, average="macro", zero_division=0)
    assert found.macro_f1 == pytest.approx(f1)
    assert found.kappa == pytest.approx(sk.cohen_kappa_score(y, guesses))
    last, right = Counter(y[-window:].tolist()), Counter[int]()
    right.update(a for a, b in zip(y[-window:].tolist(), guesses[-window:], strict=True) if a == b)
    expected = {n: right[i] / last[i] if last[i] else None for i, n in enumerate("abcdefg")}
    assert found.recent_per_class == expected
    saved = Record.restored(record.tensors(), record.seen)
    assert saved.metrics((*"abcdefg",)) == found


def test_they_are_rivers() -> None:
    rng = np.random.default_rng(0)
    y, wrong = rng.integers(0, 4, 400), rng.random(400) < 0.3
    guesses = np.where(wrong, rng.integers(0, 4, 400), y)
    names = ("BalancedAccuracy", "MacroF1", "CohenKappa")
    kinds: list[Any] = [getattr(river, name)() for name in names]
    for a, b in zip(y.tolist(), guesses.tolist(), strict=True):
        for kind in kinds:
            kind.update(a, b)
    found = recorded(y, guesses, 100, 9).metrics((*"abcd",))
    assert [found.balanced, found.macro_f1, found.kappa] == pytest.approx([k.get() for k in kinds])


def test_there_is_none_without_examples_and_no_kappa_of_one_class() -> None:
    learner = Learner(MLP(2, 1), ER())
    found = learner.metrics()
    assert (found.balanced, found.macro_f1, found.kappa, found.recent_per_class) == (
        None, None, None, {},
    )  # fmt: skip
    for _ in range(3):
        learner.observe([[1.0, 2.0]], ["only"])
    assert learner.metrics().balanced == pytest.approx(2 / 3)  # the first was not predicted
    assert learner.metrics().kappa == 0  # labels are one class, and one prediction was none
    one = np.zeros(4, dtype=np.int64)
    assert recorded(one, one, 5, 2).metrics(("a",)).kappa is None


def test_a_file_of_an_older_version_counts_predictions_from_then_on() -> None:
    learner = Learner.load(FILES / "learner-0.1.recollect", MLP(6, 3, hidden=(8,)))
    found = learner.metrics()
    assert found.seen == 48
    assert found.balanced is not None
    assert found.macro_f1 is None
    assert found.kappa is None
    assert set(found.recent_per_class.values()) == {None}
    x = np.arange(18, dtype=np.float32).reshape(3, 6) / 18
    y = ["red", "green", "blue"]
    guesses = learner.predict(x)
    learner.observe(x, y)
    assert learner.metrics().kappa == pytest.approx(sk.cohen_kappa_score(y, guesses))
    there = sorted({*y, *guesses})
    f1 = sk.f1_score(y, guesses, labels=there, average="macro", zero_division=0)
    assert learner.metrics().macro_f1 == pytest.approx(f1)
    assert None not in learner.metrics().recent_per_class.values()


def test_plain_data_has_all_of_it() -> None:
    learner = Learner(MLP(2, 1), ER())
    for _ in range(4):
        learner.observe([[1.0, 0.0], [0.0, 1.0]], ["a", "b"])
    found = json.loads(json.dumps(learner.metrics().as_dict()))
    assert found["seen"] == 8
    assert [each["class"] for each in found["classes"]] == ["a", "b"]
    assert {"accuracy", "recent", "balanced", "macro_f1", "kappa", "alarms"} <= {*found}
    assert "\n" not in str(learner.metrics())
