"""What is refused when a learner is made, and what one says of itself."""

import math

import numpy as np
import pytest
import torch

from recollect import ER, MLP, SGD, DERpp, InputError, Learner, Method
from recollect.methods import SCR

FLAWED = [
    (DERpp(alpha=-1.0), "alpha of DER++ must be at least 0 and finite, not -1.0"),
    (DERpp(beta=math.nan), "beta of DER++ must be at least 0 and finite, not nan"),
    (DERpp(alpha=math.inf), "alpha of DER++ must be at least 0 and finite, not inf"),
    (DERpp(alpha="0.5"), "alpha of DER++ must be a number, not '0.5'"),  # type: ignore[arg-type]
    (DERpp(alpha=None), "alpha of DER++ must be a number, not None"),  # type: ignore[arg-type]
    (DERpp(alpha=torch.ones(2)), "alpha of DER\\+\\+ must be a number, not tensor"),
    (ER(balanced=2), "balanced of ER must be 1 \\(on\\) or 0 \\(off\\), not 2"),
    (SCR(projection=0), "projection of SCR must be a whole number of at least 1, not 0"),
]


@pytest.mark.parametrize(("method", "reason"), FLAWED, ids=[str(m) for m, _ in FLAWED])
def test_a_hyperparameter_that_cannot_be_trained_with_is_refused_at_once(
    method: Method, reason: str
) -> None:
    with pytest.raises(InputError, match=reason.replace("DER++", r"DER\+\+")):
        Learner(MLP(2, 1), method)


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
