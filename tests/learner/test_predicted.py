"""Accuracy from predictions that were made earlier."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from recollect import ER, MLP, InputError, Learner


def learner() -> Learner:
    torch.manual_seed(0)
    found = Learner(MLP(2, 1, [4]), ER(), memory=10)
    found.observe(np.eye(2), ["a", "b"])
    return found


def test_what_was_predicted_earlier_counts() -> None:
    one = learner()
    one.observe(np.eye(2), ["a", "b"], predicted=["a", "a"])
    assert one.metrics().accuracy == 1 / 4
    one.observe([0.0, 1.0], "b", predicted="b")
    one.observe(np.eye(2), ["a", "new"], predicted=[None, "a"])
    assert one.metrics().accuracy == 2 / 7


def test_it_changes_nothing_else() -> None:
    one, other = learner(), learner()
    losses = [
        one.observe(np.eye(2), ["a", "b"]),
        other.observe(np.eye(2), ["a", "b"], predicted=other.predict(np.eye(2))),
    ]
    assert losses[0] == losses[1]
    assert one.metrics() == other.metrics()
    assert (one.predict_proba(np.eye(2)) == other.predict_proba(np.eye(2))).all()


@pytest.mark.parametrize("predicted", [["a"], "a", ["a", "b", "a"], 3])
def test_there_is_one_for_every_example(predicted: Any) -> None:
    one = learner()
    with pytest.raises(InputError, match="predicted must be what predict returned: 2 predictions"):
        one.observe(np.eye(2), ["a", "b"], predicted=predicted)
    assert one.steps == 1
