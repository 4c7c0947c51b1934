"""The classifier in River's shape: River's own suite, and what that leaves out."""

from __future__ import annotations

import math
import pickle
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from river import compose, evaluate, metrics, preprocessing
from river.checks import yield_checks
from torch import nn

from recollect import InputError
from recollect.adapters import RiverClassifier

NOT_OURS = "check_learn_many_matches_learn_one"  # a frame is one step, not one for every row
LABELS_MATTER = ("check_learn_one", "check_classifier_tracks_seen_labels")


def small(**told: Any) -> RiverClassifier:
    plain = {"hidden": (8,), "memory": 20, "replay": 4, "seed": 0}
    return RiverClassifier(**{**plain, **told})


def suite() -> Iterator[Any]:
    """Every check of River's suite, within the time that tests have here.

    Most checks come for three streams: booleans, the same as numpy's, and seven classes. The last
    is taken, and where labels matter all three.
    """
    checks = [check for check in yield_checks(small(seed=None)) if check.__name__ != NOT_OURS]
    last = {check.__name__: place for place, check in enumerate(checks)}
    for place, check in enumerate(checks):
        name = check.__name__
        if name in LABELS_MATTER or last[name] == place:
            yield pytest.param(check, id=f"{name}-{place}")


@pytest.mark.parametrize("check", list(suite()))
def test_rivers_own_checks(check: Any) -> None:
    check(small(seed=None))


def test_the_suite_is_whole_but_for_the_check_that_the_model_declares() -> None:
    asked = {check.__name__ for check in yield_checks(small(seed=None))}
    ran = {str(param.id).rpartition("-")[0] for param in suite()}
    assert asked - ran == {NOT_OURS} == small()._unit_test_skips()


def drifting(n: int, seed: int = 0) -> Iterator[tuple[dict[Any, Any], str]]:
    """A boundary that turns by a right angle, on features of very different scales."""
    rng = np.random.default_rng(seed)
    for place in range(n):
        angle = np.pi / 2 * place / n
        a, b = rng.normal(size=2)
        above = a * math.cos(angle) + b * math.sin(angle) > 0
        yield {"a": 1e-3 * a, "b": 1e5 * b + 3e5}, "up" if above else "down"


def accuracy(model: RiverClassifier, n: int) -> float:
    metric = metrics.Accuracy()  # type: ignore[no-untyped-call]
    return float(evaluate.progressive_val_score(drifting(n), model, metric).get())


def test_progressive_validation_of_a_drifting_stream_beats_the_majority() -> None:
    labels = Counter(y for _, y in drifting(300))
    majority = max(labels.values()) / 300
    found = accuracy(small(), 300)
    assert found > 0.75
    assert found > majority + 0.15


def test_it_is_a_step_of_a_pipeline_and_takes_probabilities_to_a_metric() -> None:
    model = compose.Pipeline(preprocessing.StandardScaler(), small(standardise=False))
    stream = ((x, y == "up") for x, y in drifting(300))
    metric = metrics.ROCAUC()  # type: ignore[no-untyped-call]
    assert evaluate.progressive_val_score(stream, model, metric).get() > 0.8
    piped = preprocessing.StandardScaler() | small(standardise=False)
    frame = pd.DataFrame([x for x, _ in drifting(40)])
    labels = pd.Series([y for _, y in drifting(40)])
    piped.learn_many(frame, labels)
    assert set(piped.predict_many(frame)) <= {"up", "down"}


def test_rare_values_far_from_all_others_do_not_make_it_diverge() -> None:
    """Cut off at ten deviations instead of three, they raise a DivergedError at row 137."""
    rng = np.random.default_rng(0)
    model = small()
    for _ in range(200):
        label = int(rng.integers(3))
        x = rng.normal(size=20)
        x[label] += 2
        x = x * 1000 if rng.random() < 0.01 else x
        model.learn_one({f"f{place}": float(value) for place, value in enumerate(x)}, label)
    assert model.learner is not None
    assert model.learner.steps == 200


def test_nothing_is_predicted_before_anything_is_learned() -> None:
    model, x = small(), {"a": 1.0}
    frame = pd.DataFrame({"a": [1.0, 2.0]}, index=[7, 9])
    assert model.predict_one(x) is None
    assert model.predict_proba_one(x) == {}
    assert model.learner is None
    assert model.predict_many(frame).tolist() == [None, None]
    assert model.predict_proba_many(frame).shape == (2, 0)


def test_labels_that_arrive_late_are_learned_and_the_early_ones_kept() -> None:
    rng = np.random.default_rng(0)

    def some(label: int) -> dict[str, float]:
        return {f"f{i}": float(rng.normal()) / 2 + 3 * (i == label) for i in range(4)}

    model = small(memory=60, hidden=(16,))
    for label in range(4):
        for _ in range(60):
            model.learn_one(some(label), f"kind {label}")
        assert set(model.predict_proba_one({})) == {f"kind {n}" for n in range(label + 1)}
    right = [model.predict_one(some(n % 4)) == f"kind {n % 4}" for n in range(100)]
    assert np.mean(right) > 0.85


def state(model: RiverClassifier, folder: Path) -> bytes:
    """Everything that a model has learned, as bytes."""
    assert model.learner is not None
    model.learner.save(folder / "state")
    return (folder / "state").read_bytes()


def test_one_by_one_is_the_same_as_frames_of_one_row_bit_for_bit(tmp_path: Path) -> None:
    one, many = small(), small()
    rows = list(drifting(30))
    for x, y in rows:
        one.learn_one(x, y)
        many.learn_many(pd.DataFrame([x]), pd.Series([y]))
    assert state(one, tmp_path) == state(many, tmp_path)
    frame = pd.DataFrame([x for x, _ in rows], index=[f"row {n}" for n in range(30)])
    shares = many.predict_proba_many(frame)
    assert shares.index.equals(frame.index)
    for (x, _), (_, row), label in zip(
        rows, shares.iterrows(), many.predict_many(frame), strict=True
    ):
        assert one.predict_proba_one(x) == pytest.approx(row.to_dict(), abs=1e-12)
        assert one.predict_one(x) == label


def test_a_frame_is_one_step() -> None:
    model = small()
    frame = pd.DataFrame([x for x, _ in drifting(30)])
    model.learn_many(frame, pd.Series([y for _, y in drifting(30)]))
    assert model.learner is not None
    assert (model.learner.steps, model.learner.seen) == (1, 30)
    assert model.predict_many(frame.iloc[:0]).empty


def test_features_have_places_by_first_appearance_and_missing_ones_are_zero() -> None:
    model = small()
    model.learn_one({"b": 1.0, "a": 0.0}, 0)
    model.learn_one({"a": 2.0, "z": 5.0}, 1)
    assert model.feature_names == ["a", "b"]
    assert model.predict_proba_one({"a": 2.0}) == model.predict_proba_one({"b": 0.0, "a": 2.0})
    assert model.predict_proba_one({"a": 1.0}) == model.predict_proba_one({"a": 1.0, "z": 9.0})
    assert model.predict_proba_one({"a": 1.0}) != model.predict_proba_one({"a": 1.5})


def test_room_for_features_that_appear_later() -> None:
    model = small(features=3)
    model.learn_one({"b": 1.0}, "no")
    model.learn_one({"c": 1.0, "a": 1.0, "d": 1.0}, "yes")
    assert model.feature_names == ["b", "a", "c"]
    for _ in range(40):
        model.learn_one({"b": 1.0}, "no")
        model.learn_one({"b": 1.0, "c": 1.0}, "yes")
    assert model.predict_one({"b": 1.0}) == "no"
    assert model.predict_one({"b": 1.0, "c": 1.0}) == "yes"


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ({"a": "red", "b": 1.0}, "the feature 'a' must be a number, not 'red': encode it"),
        ({"a": None, "b": 1.0}, "the feature 'a' must be a number, not None"),
        ({"a": math.nan, "b": 1.0}, "not finite"),
        ({"a": 1e300, "b": 1.0}, "not finite"),
    ],
)
def test_bad_values_are_refused_and_change_nothing(x: dict[str, Any], message: str) -> None:
    fresh, taught = small(), small(features=5)
    taught.learn_one({"b": 1.0}, "known")
    for model in (fresh, taught):
        before = pickle.dumps(model)
        with pytest.raises(InputError, match=message):
            model.learn_one(x, "new")
        with pytest.raises(InputError, match=message):
            model.learn_many(pd.DataFrame([x]), pd.Series(["new"]))
        assert pickle.dumps(model) == before
        assert model.predict_one({"b": 1.0}) in (None, "known")


def test_frames_that_make_no_sense_are_refused() -> None:
    frame = pd.DataFrame([[1.0, 2.0]], columns=["a", "a"])
    with pytest.raises(InputError, match="two columns of the same name"):
        small().learn_many(frame, pd.Series(["x"]))
    with pytest.raises(InputError, match="labels"):
        small().learn_many(pd.DataFrame({"a": [1.0, 2.0]}), pd.Series(["x"]))
    with pytest.raises(InputError, match="no features"):
        small().learn_one({}, "x")


def test_clones_and_copies(tmp_path: Path) -> None:
    model = small(hidden=(), method="er", lr=0.05)
    for x, y in drifting(30):
        model.learn_one(x, y)
    fresh, copied = model.clone(), pickle.loads(pickle.dumps(model))
    assert fresh.learner is None
    assert (fresh.method, fresh.lr, fresh.hidden) == ("er", 0.05, [])
    for x, y in drifting(10, seed=1):
        assert copied.predict_proba_one(x) == model.predict_proba_one(x)
        copied.learn_one(x, y)
        model.learn_one(x, y)
    assert state(copied, tmp_path) == state(model, tmp_path)


def test_without_a_seed_two_models_differ() -> None:
    found = []
    for _ in range(2):
        model = small(seed=None)
        model.learn_one({"a": 1.0}, "x")
        model.learn_one({"a": 2.0}, "y")
        found.append(model.predict_proba_one({"a": 1.0}))
    assert found[0] != found[1]


def test_optimisers_and_schedules_have_the_learners_names() -> None:
    how: dict[str, Any] = {"optimiser": "AdamW", "beta1": 0.8, "clip": 1.0, "weight_decay": 0.1,
                           "schedule": "cosine", "schedule_steps": 40, "lr": 0.01}  # fmt: skip
    model, other = small(**how), small(**how).clone()
    for x, y in drifting(30):
        model.learn_one(x, y)
        other.learn_one(x, y)
    assert model.learner is not None
    assert other.learner is not None
    assert model.learner._packed() == other.learner._packed()
    asked = model.learner._settings.optimising
    assert asked.names.optimiser == "AdamW"
    assert asked.numbers == {"beta1": 0.8, "clip": 1.0, "weight_decay": 0.1}


def test_a_network_of_ones_own() -> None:
    numbers = count()

    def network(inputs: int, outputs: int) -> nn.Module:
        next(numbers)
        return nn.Sequential(nn.Linear(inputs, 12), nn.Tanh(), nn.Linear(12, outputs))

    assert accuracy(small(module=network), 300) > 0.75
    assert next(numbers) == 1
