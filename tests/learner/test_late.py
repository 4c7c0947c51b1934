"""Predict now, label later: which labels are learned, and that the answer given then is scored."""

from __future__ import annotations

import math
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.learner.late_stream import FEATURES, examples, made, state
from tests.parts import Texts, texts

from recollect import ER, DivergedError, InputError, Learner
from recollect.learner import Labelled


def test_a_late_label_is_the_step_that_an_early_one_is() -> None:
    x, y = examples(60)
    late, early = made(), made()
    for start in range(0, 60, 10):
        part, ids = x[start : start + 10], list(range(start, start + 10))
        answers = late.predict(part, ids=ids)
        found = late.label(ids, y[start : start + 10])
        early.observe(part, y[start : start + 10], predicted=answers, ids=ids)
        assert found.learned == 10
        assert math.isfinite(found.loss)
    facts = state(late), state(early)
    assert late.metrics() == early.metrics()
    assert facts[0][-1000:] == facts[1][-1000:]  # tensors; the count of labels differs
    np.testing.assert_array_equal(late.predict_proba(x), early.predict_proba(x))


def test_the_score_is_that_of_the_answer_given_then() -> None:
    x, y = examples(40)
    learner = made()
    assert learner.predict(x, ids=list(range(40))) == [None] * 40
    for row in range(40):  # by now it would know better
        learner.label(row, y[row])
    assert learner.metrics().seen == 40
    assert learner.metrics().accuracy == 0
    wrong = learner.predict(x[0], ids="a")
    learner.label("a", wrong)
    assert learner.metrics().accuracy == 1 / 41


def test_predict_proba_keeps_the_most_probable_class() -> None:
    x, y = examples(20)
    learner = made()
    assert learner.predict_proba(x[:2], ids=["a", "b"]).shape == (2, 0)
    learner.label(["a", "b"], y[:2])
    shares = learner.predict_proba(x[2], ids="c")
    best = learner.classes[shares.argmax()]
    before = learner.metrics().seen
    learner.label("c", best)
    assert learner.metrics().recent == 1 / (before + 1)


def test_ids_that_do_not_wait_are_ignored_and_named() -> None:
    x, y = examples(5)
    learner = made(pending=3)
    learner.predict(x, ids=["a", "b", "c", "d", "e"])
    assert learner.pending == 3
    found = learner.label(["a", "c", "c", "z", "d"], [y[0], y[2], y[2], "q", y[3]])
    assert found == Labelled(2, found.loss, repeated=("c",), expired=("a",), unknown=("z",))
    assert "q" not in learner.classes
    with pytest.raises(InputError, match="there are 1 ids, but x has 6 examples"):
        made().predict(x[0], ids=["a"])
    again = learner.label(["c", "d"], ["q", "q"])
    assert (again.learned, again.repeated, again.ignored) == (0, ("c", "d"), ("c", "d"))
    assert math.isnan(again.loss)
    assert learner.steps == 1


def test_an_id_that_has_its_label_is_answered_and_not_kept_again() -> None:
    x, y = examples(2)
    learner = made()
    learner.predict(x[0], ids="a")
    learner.label("a", y[0])
    assert learner.predict(x[0], ids="a") == y[0]
    assert learner.pending == 0
    assert learner.label("a", y[0]).repeated == ("a",)


def test_an_id_that_waits_gets_the_newest_example_and_answer() -> None:
    x, y = examples(2)
    one, other = made(), made()
    one.predict(x[0], ids="a")
    one.predict(x[1], ids="a")
    other.predict(x[1], ids="a")
    assert one.pending == 1
    one.label("a", y[1])
    other.label("a", y[1])
    assert state(one) == state(other)


def test_what_waits_too_long_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = examples(3)
    now = [1000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    learner = made(expires=60)
    learner.predict(x[0], ids="a")
    now[0] += 50
    learner.predict(x[1], ids="b")
    now[0] += 20
    assert learner.label(["a", "b"], y[:2]).expired == ("a",)
    learner.predict(x[2], ids="c")
    assert learner.pending == 1
    assert learner.label("a", y[0]).expired == ("a",)


def test_ids_may_come_from_numpy() -> None:
    x, y = examples(3)
    learner = made()
    learner.predict(x, ids=np.array([1, 2, 3]))
    assert learner.label([np.int64(1)], y[:1]).learned == 1
    assert learner.label(np.array([1, 2]), np.array(y[:2])).repeated == (1,)


def test_what_waits_is_a_copy() -> None:
    x, y = examples(4)
    one, other = made(), made()
    mine = x.copy()
    one.predict(mine, ids=[0, 1, 2, 3])
    mine[:] = 7
    other.predict(x, ids=[0, 1, 2, 3])
    one.label([0, 1], y[:2])
    other.label([0, 1], y[:2])
    assert state(one) == state(other)


@pytest.mark.parametrize(
    ("ids", "y", "words"),
    [
        (["a", "b"], ["u"], "2 ids and 1 labels"),
        ("a", ["u"], "1 ids and 1 labels"),
        ([None], ["u"], "an id must be a text"),
        ([1.5], ["u"], "an id must be a text"),
        ([{"a": 1}], ["u"], "an id must be a text"),
        ([True], ["u"], "an id must be a text"),
        (["x" * 1001], ["u"], "an id must be a text"),
        ([2**63], ["u"], "an id must be a text"),
        (["a"], [None], "the label is None"),
        (["a"], [0.5], "is not a class"),
        (["a"], [["u"]], "must be hashable"),
    ],
)
def test_what_cannot_be_learned_is_refused_and_nothing_changes(
    ids: object, y: object, words: str
) -> None:
    x, labels = examples(4)
    learner = made()
    learner.predict(x, ids=["a", "b", "c", "d"])
    learner.label("d", labels[3])
    before = state(learner)
    with pytest.raises(InputError, match=words):
        learner.label(ids, y)
    assert state(learner) == before
    assert learner.pending == 3


@pytest.mark.parametrize("cold", [True, False])
@pytest.mark.parametrize(
    ("x", "ids", "words"),
    [
        (np.zeros((2, FEATURES)), ["a", "a"], "1 different ids and 2 examples"),
        (np.zeros((2, FEATURES)), ["a"], "examples"),
        (np.zeros((1, FEATURES + 1)), ["a"], "shape"),
        (np.full((1, FEATURES), np.nan), ["a"], "not finite"),
        (np.zeros((1, FEATURES)), [2.5], "an id must be a text"),
        (["nothing"], ["a"], "lists of numbers"),
    ],
)
def test_what_cannot_be_kept_is_refused(cold: bool, x: object, ids: object, words: str) -> None:
    some, y = examples(3)
    learner = made()
    learner.predict(some, ids=[1, 2, 3])
    if not cold:
        learner.label(1, y[0])
    waiting = learner.pending
    with pytest.raises(InputError, match=words):
        learner.predict(x, ids=ids)
    assert learner.pending == waiting


def test_fixed_classes_refuse_a_label_and_keep_what_waits() -> None:
    x, y = examples(2)
    learner = made(classes=["class 0", "class 1", "class 2"])
    learner.predict(x, ids=[1, 2])
    with pytest.raises(InputError, match="unknown label 'other'"):
        learner.label([1, 2], [y[0], "other"])
    assert learner.label([1, 2], y).learned == 2


def test_an_example_that_is_left_out_has_its_label() -> None:
    x, y = examples(60)
    learner = made()
    learner.observe(x, y)
    far = x[:2].copy()
    far[1] = 1e9
    learner.predict(far, ids=["a", "b"])
    found = learner.label(["a", "b"], y[:2])
    assert (found.learned, found.left_out, found.left_out_ids) == (1, 1, ("b",))
    assert learner.label("b", y[1]).repeated == ("b",)


def test_a_step_that_diverges_is_not_tried_twice() -> None:
    x, y = examples(40)
    learner = made(lr=1e30)
    learner.predict(x, ids=list(range(40)))
    learner.label(0, y[0])
    diverged = 0
    for row in range(1, 40):
        steps = learner.steps
        try:
            learner.label(row, y[row])
        except DivergedError:
            diverged += 1
            assert learner.steps == steps
            assert learner.label(row, y[row]).repeated == (row,)
    assert diverged


def test_many_threads_predict_while_one_labels() -> None:
    x, y = examples(400)
    learner = made()
    learner.observe(x[:10], y[:10])
    told: list[int] = []

    def ask(first: int) -> None:
        for row in range(first, 400, 4):
            learner.predict(x[row], ids=row)
            told.append(row)

    threads = [threading.Thread(target=ask, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    learned = done = 0
    while learned < 400:
        ready, done = told[done:], len(told)
        learned += learner.label(ready, [y[row] for row in ready]).learned if ready else 0
    for thread in threads:
        thread.join()
    assert (learner.seen, learner.pending) == (410, 0)


@pytest.mark.parametrize(
    "bad", [{"pending": 0}, {"pending": 2.5}, {"expires": 0}, {"expires": "1"}]
)
def test_bounds_that_make_no_sense_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(bad))):
        made(**bad)


def test_a_closed_learner_keeps_and_labels_no_more() -> None:
    x, y = examples(1)
    learner = made()
    learner.predict(x, ids=["a"])
    learner.close()
    for call in (lambda: learner.predict(x, ids=["b"]), lambda: learner.label("a", y[0])):
        with pytest.raises(InputError, match="closed"):
            call()


def test_without_ids_nothing_has_to_be_known() -> None:
    learner: Learner = made()
    with pytest.raises(InputError, match="nothing has been learned yet"):
        learner.predict(examples(1)[0])


@pytest.mark.parametrize("began", [False, True])
def test_examples_of_several_tensors_wait_too_and_survive_a_kill(
    tmp_path: Path, began: bool
) -> None:
    torch.manual_seed(0)
    network, (first, y), (late, labels) = Texts(), texts(8), texts(6, seed=1)

    def made(folder: Path | None) -> Learner:
        found = Learner(network, ER(), memory=20, checkpoints=folder)
        if began:
            found.observe(first, y)
        found.predict(late, ids=list(range(6)))
        found.label([4, 1], labels[[4, 1]])
        return found

    calm, learner = made(None), made(tmp_path / "a")
    resumed = Learner.resume(shutil.copytree(tmp_path / "a", tmp_path / "b"), network)
    assert resumed is not None
    for each in (calm, learner, resumed):
        assert each.pending == 4
        assert each.label(0, int(labels[0])).learned == 1
    assert np.array_equal(resumed.predict_proba(late), calm.predict_proba(late))
    with pytest.raises(InputError, match="input_ids"):
        learner.predict({**late, "input_ids": late["input_ids"][:, 1:]}, ids=list(range(6, 12)))
