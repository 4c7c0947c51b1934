"""What is refused when a learner is made, and what one says of itself."""

import math
import re
from typing import Any

import numpy as np
import pytest
import torch

from recollect import ER, MLP, SGD, DERpp, Fleet, InputError, Learner, Method, run
from recollect.methods import SCR, STAR, PackNet

FLAWED: list[tuple[type[Method], dict[str, Any], str]] = [
    (DERpp, {"alpha": -1.0}, "alpha of DER++ must be at least 0 and finite, not -1.0"),
    (DERpp, {"beta": math.nan}, "beta of DER++ must be at least 0 and finite, not nan"),
    (DERpp, {"alpha": math.inf}, "alpha of DER++ must be at least 0 and finite, not inf"),
    (DERpp, {"alpha": "0.5"}, "alpha of DER++ must be a number, not '0.5'"),
    (DERpp, {"alpha": None}, "alpha of DER++ must be a number, not None"),
    (ER, {"balanced": 2}, "balanced of ER must be 1 (on) or 0 (off), not 2"),
    (SCR, {"projection": 0}, "projection of SCR must be a whole number of at least 1, not 0"),
    (STAR, {"around": 2.5}, "around of STAR must be a whole number of at least 1, not 2.5"),
    (PackNet, {"prune": math.nan}, "prune of PackNet must be at least 0 and finite, not nan"),
]


@pytest.mark.parametrize(("kind", "values", "reason"), FLAWED)
def test_a_hyperparameter_that_cannot_be_trained_with_is_refused_at_once(
    kind: type[Method], values: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InputError, match=re.escape(reason)):
        kind(**values)


def test_a_tensor_is_checked_when_it_is_used() -> None:
    method = DERpp(alpha=torch.ones(2))  # what a method has in a fleet
    for use in (lambda: Learner(MLP(2, 1), method), lambda: run("seq-digits", method, buffer=9)):
        with pytest.raises(InputError, match=r"alpha of DER\+\+ must be a number, not tensor"):
            use()


@pytest.mark.parametrize("lr", [-0.1, math.nan, math.inf])
def test_a_fleet_refuses_a_learning_rate(lr: float) -> None:
    with pytest.raises(InputError, match="a learning rate must be at least 0 and finite"):
        Fleet([SGD()] * 2, MLP(2, 2), seeds=[0, 1], lr=[0.1, lr], classes=2, shape=(2,))


@pytest.mark.parametrize("alpha", [0, 1, np.float32(0.5), torch.tensor(0.5)])
def test_numbers_of_other_kinds_are_accepted(alpha: float) -> None:
    learner = Learner(MLP(2, 1), DERpp(alpha=alpha), memory=10)
    for _ in range(2):
        assert math.isfinite(learner.observe([[0.0, 1.0], [1.0, 0.0]], ["a", "b"]))


def test_a_learner_says_in_a_line_what_it_is() -> None:
    learner = Learner(MLP(2, 1), SGD())
    assert repr(learner) == f"<Learner: SGD, 0 classes, {learner.metrics()}>"
    learner.observe([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
    assert repr(learner).startswith("<Learner: SGD, 2 classes, 2 examples, accuracy ")
    assert "\n" not in repr(learner)
