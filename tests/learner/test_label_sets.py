"""Learners of several labels: growth, files, measures, weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from recollect import DER, ER, MLP, SGD, DERpp, InputError, Learner, Method
from recollect.learner.monitoring.label_record import LabelRecord

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3)).astype(np.float32)
RULES = {"up": X[:, 0] > 0, "down": X[:, 0] < -0.5, "wide": np.abs(X[:, 1]) > 1, "far": X[:, 2] > 0}
SETS = [{name for name, has in RULES.items() if has[row]} for row in range(400)]


def network() -> MLP:
    torch.manual_seed(0)
    return MLP(3, 1, hidden=(16,))


def learner_of(method: Method | None = None, **changes: object) -> Learner:
    usual = {"memory": 50, "lr": 0.1, "target": "labels", "replay": 8, "spare": 1, **changes}
    return Learner(network(), method or DERpp(), **usual)  # type: ignore[arg-type]


def learned(learner: Learner, rows: slice = slice(0, 400)) -> Learner:
    """Labels arrive one after the other, so that the network has to grow."""
    for start in range(*rows.indices(400))[::10]:
        names = [*RULES][: 1 + start // 60]
        some = [SETS[row] & {*names} for row in range(start, start + 10)]
        learner.observe(X[start : start + 10], some)
    return learner


def test_labels_that_arrive_are_learned_and_predicted_as_sets() -> None:
    learner = learned(learner_of(window=200))
    assert {*learner.classes} == {*RULES}
    for start in range(0, 1200, 10):
        learner.observe(X[start % 400 :][:10], SETS[start % 400 :][:10])
    found = learner.metrics()
    assert min(found.recent_f1 or 0.0, found.average_precision or 0.0) > 0.6
    assert list(found.per_label) == learner.classes
    predicted = learner.predict(X[:20])
    shares = learner.predict_proba(X[:20])
    assert shares.shape == (20, 4)
    for each, row in zip(predicted, shares, strict=True):
        assert each == {n for n, p in zip(learner.classes, row, strict=True) if p > 0.5}
    right = np.mean([SETS[row] == each for row, each in enumerate(learner.predict(X))])
    assert right > 0.4
    logits = learner.trained_module()(torch.from_numpy(X[:20])).detach()
    assert np.allclose(logits.double().sigmoid().numpy(), shares, atol=1e-5)
    assert learner.predict(X[0]) == learner.predict(X[:1])[0]


@pytest.mark.parametrize("kind", [SGD, ER, DER, DERpp])
def test_a_saved_learner_continues_bit_for_bit(kind: type[Method], tmp_path: Path) -> None:
    whole = learned(learner_of(kind()))
    half = learned(learner_of(kind()), slice(0, 110))
    half.save(tmp_path / "half")
    again = Learner.load(tmp_path / "half", network())
    learned(again, slice(110, 400))
    assert np.array_equal(whole.predict_proba(X), again.predict_proba(X))
    assert whole.metrics() == again.metrics()


def test_what_is_stored_grows_with_the_labels_and_keeps_its_weight() -> None:
    learner = learner_of(ER())
    learner.observe(X[:5], [{"a"}, set(), {"a"}, {"a"}, set()], weight=2.0)
    learner.observe(X[5:10], [{f"label {n}"} for n in range(5)], weight=0.5)
    engine = learner._now.engine
    assert engine is not None
    assert engine.outputs == 7
    stored = engine.fleet.memory.tensors["y"][:10]
    assert stored[:, 0].tolist() == [2.0] * 5 + [0.5] * 5
    assert stored[:5, 1].tolist() == [1, 0, 1, 1, 0]
    assert stored[:, 1:].sum() == 8


def test_examples_without_labels_and_single_examples() -> None:
    learner = learner_of(classes=["a", "b"])
    learner.observe(X[0], set())
    learner.observe(X[1], ["a", "b"])
    learner.observe(X[2:4], [[], ["b"]])
    learner.observe(X[2:4], ({"a"}, {"b"}))
    assert learner.seen == 6
    for y, said in [
        ("ab", "must be a set or list"), ([{"c"}, set()], "unknown label 'c'"),
        ([{"a"}], "1 targets, but x has 2"), (["a", "b"], "one label for each of 2 examples"),
        (np.array(["a", "b"]), "one label for each of 2 examples"), (np.str_("a"), "a set or list"),
        ({"a", "b", "c"}, "is the target of one"),
    ]:  # fmt: skip
        with pytest.raises(InputError, match=said):
            learner.observe(X[:2], y)
    with pytest.raises(InputError, match="2 sets of labels, but x is one example"):
        learner.observe(X[0], [["a"], ["b"]])
    assert learner.seen == 6


def test_the_first_labels_tell_a_batch_from_one_example() -> None:
    for y, said in [
        (SETS[:9], "9 targets, but x has 10"), (["a"] * 10, "one label for each of 10 examples"),
        ({"a"}, "for 10 of them, give 10 targets"),
    ]:  # fmt: skip
        learner = learner_of()
        with pytest.raises(InputError, match=said):
            learner.observe(X[:10], y)
        assert not learner.steps
    one = learner_of()
    one.observe(X[0], np.array(["a", "b"]))
    assert one.classes == ["a", "b"]


def test_an_example_without_a_prediction_counts_as_an_empty_set() -> None:
    one, other = (learned(learner_of(), slice(0, 100)) for _ in range(2))
    one.observe(X[:2], [{"up"}, {"far"}], predicted=[None, {"up"}])
    other.observe(X[:2], [{"up"}, {"far"}], predicted=[set(), ["up"]])
    assert one.metrics() == other.metrics()
    for wrong in ([None], "up", ["up", "up"], 3):
        with pytest.raises(
            InputError, match="predicted must be what predict returned: 2 predictions"
        ):
            one.observe(X[:2], [{"up"}, {"far"}], predicted=wrong)


def test_arrays_of_ones_and_zeros_are_read_by_the_listed_classes() -> None:
    ones = np.array([[0, 1, 1], [0, 0, 0]])
    learner, same = (learner_of(ER(), classes=["a", "b", "c"]) for _ in range(2))
    loss = same.observe(X[:2], [{"b", "c"}, set()])
    assert learner.observe(X[:2], ones) == loss
    for y in (torch.from_numpy(ones).float(), ones.astype(bool), list(ones)):
        learner.observe(X[2:4], y)
        same.observe(X[2:4], [{"b", "c"}, set()])
    learner.observe(X[4], ones[0])
    same.observe(X[4], {"b", "c"})
    assert np.array_equal(learner.predict_proba(X), same.predict_proba(X))
    for wrong in (ones[:, :2], 2 * ones):
        with pytest.raises(InputError, match="one element for each of the 3 classes"):
            learner.observe(X[:2], wrong)
    unlisted = learner_of()
    for y in (ones, ones.tolist()):
        with pytest.raises(InputError, match=r"list the labels of its columns .* \(classes="):
            unlisted.observe(X[:2], y)
    with pytest.raises(InputError, match="classes is empty"):
        learner_of(classes=[])


def test_only_empty_sets_are_predicted_before_any_label() -> None:
    learner = learner_of(ER())
    learner.observe(X[:2], [set(), set()])
    assert learner.predict(X[:2]) == [set(), set()]
    assert learner.predict(X[0]) == set()
    assert repr(learner).startswith("<Learner: ER, 0 labels, 2 examples, F1 -")


def test_measures_are_those_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    shares = (RNG.random((300, 4)) * 100).round() / 100 * 0.99 + 0.001
    has = RNG.random((300, 4)) < shares
    record = LabelRecord.empty(100)
    for start in range(0, 300, 30):
        some = slice(start, start + 30)
        record = record.after(has[some], shares[some] > 0.5, shares[some])
    found = record.metrics(tuple("abcd"))
    said = shares > 0.5
    assert found.f1 == pytest.approx(metrics.f1_score(has, said, average="micro"))
    assert found.macro_f1 == pytest.approx(metrics.f1_score(has, said, average="macro"))
    assert found.hamming == pytest.approx(metrics.hamming_loss(has, said))
    assert found.average_precision == pytest.approx(
        metrics.average_precision_score(has, shares), abs=0.01
    )
    recent = metrics.f1_score(has[-100:], said[-100:], average="micro")
    assert found.recent_f1 == pytest.approx(recent)
