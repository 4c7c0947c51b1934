"""Arrays of numpy's that are not plain: masked ones, and those with their bytes turned round."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch import Tensor, nn

from recollect import ER, MLP, InputError, Learner


class Floats(nn.Module):
    """Whole numbers as a network of dense layers reads them."""

    def forward(self, x: Tensor) -> Tensor:
        return x.float()


MASKED = np.ma.array(np.zeros((2, 4)), mask=np.eye(2, 4, 3, dtype=bool))


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (MASKED, [0, 1]),
        (list(MASKED), [0, 1]),
        (np.ma.masked, 0),
        (np.zeros((2, 4)), np.ma.array([0, 1], mask=[False, True])),
        (np.zeros((2, 4)), [0, np.ma.masked]),
    ],
    ids=["array", "list of arrays", "nothing", "labels", "list of labels"],
)
def test_what_is_masked_is_not_there(x: Any, y: Any) -> None:
    learner = Learner(MLP(4, 1), ER(), on_outlier="raise")
    with pytest.raises(InputError, match="masked"):
        learner.observe(x, y)
    learner.observe(np.zeros((2, 4)), [0, 1])
    with pytest.raises(InputError, match="masked"):
        learner.predict(MASKED)


def test_a_masked_array_of_which_nothing_is_masked_is_an_array() -> None:
    learner = Learner(MLP(4, 1), ER())
    learner.observe(np.ma.array(np.ones((2, 4))), np.ma.array(["a", "b"]))
    assert learner.classes == ["a", "b"]


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "i2", "i4", "i8", "u2"])
def test_numbers_may_come_with_their_bytes_in_the_other_order(kind: str) -> None:
    module = nn.Sequential(Floats(), MLP(4, 1))
    one, other = (Learner(module, ER(), seed=1) for _ in range(2))
    x = np.arange(8).reshape(2, 4)
    for order, learner in ((">", one), ("<", other)):
        learner.observe(x.astype(order + kind), np.array([3, 300], f"{order}i4"))
    assert one._packed() == other._packed()
    assert one.classes == [3, 300]
