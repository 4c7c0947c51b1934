"""The regressor in River's shape: River's own suite, units and weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from river.checks import yield_checks

from recollect.adapters import RiverClassifier, RiverRegressor
from recollect.errors import InputError

NOT_OURS = "check_learn_many_matches_learn_one"  # a frame is one step, not one for every row


def small(**told: Any) -> RiverRegressor:
    return RiverRegressor(**{"hidden": (8,), "memory": 20, "replay": 4, "seed": 0, **told})


def suite() -> list[Any]:
    """Every check of River's suite once."""
    found = {check.__name__: check for check in yield_checks(small(seed=None))}
    return [check for name, check in found.items() if name != NOT_OURS]


@pytest.mark.parametrize("check", suite(), ids=lambda check: check.__name__)
def test_rivers_own_checks(check: Any) -> None:
    check(small(seed=None))


def test_numbers_are_learned_one_by_one_and_many_at_once() -> None:
    rng = np.random.default_rng(0)
    one, many = small(), small()
    frame = pd.DataFrame(rng.normal(size=(400, 2)), columns=["a", "b"])
    y = 1e4 + 100 * (frame["a"] - frame["b"])
    assert one.predict_one({"a": 1.0}) == 0.0
    for row, value in zip(frame.to_dict("records"), y, strict=True):
        one.learn_one(row, value)
    for start in range(0, 400, 10):
        many.learn_many(frame[start : start + 10], y[start : start + 10])
    for found in (one.predict_many(frame), many.predict_many(frame)):
        assert list(found.index) == list(frame.index)
        assert np.abs(found - y).mean() < 0.7 * y.std()


def test_several_values_are_refused_from_the_first_example_on() -> None:
    model = RiverRegressor(seed=0)
    several: list[Any] = [[1.0, 2.0], np.ones(1)]
    for y in several:
        with pytest.raises(InputError, match="needs one number as the target"):
            model.learn_one({"a": 1.0}, y)
    assert model.learner is None
    model.learn_one({"a": 1.0}, float(np.float32(2)))


def test_weights_multiply_what_is_learned() -> None:
    heavy, light = small(method="er"), small(method="er")
    for model, w in ((heavy, 1.0), (light, 0.001)):
        for _ in range(60):
            model.learn_one({"a": 1.0}, 10.0)
            model.learn_one({"a": 1.0}, 20.0, w=w)
        model.learn_one({"a": 1.0}, 1e9, w=0.0)
    assert light.predict_one({"a": 1.0}) < heavy.predict_one({"a": 1.0})
    labels = RiverClassifier(hidden=(8,), memory=20, replay=4, seed=0)
    for _ in range(60):
        labels.learn_one({"a": 1.0}, "often", w=0.01)
        labels.learn_one({"a": 1.0}, "much", w=1.0)
    assert labels.predict_one({"a": 1.0}) == "much"
