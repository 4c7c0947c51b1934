"""What an accuracy matrix says: final accuracy, forward and backward transfer, forgetting."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Matrix", "Scores", "scores"]

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Scores:
    """The four numbers of one run in one setting, in percent; None where one is not defined."""

    accuracy: float
    fwt: float | None
    bwt: float | None
    forgetting: float | None


def scores(matrix: Matrix, untrained: Matrix | None) -> Scores:
    """The scores of a matrix whose row i holds the accuracy on every task after task i.

    `untrained` is the accuracy of the network before any training. Entries that were not measured
    (tasks more than one ahead) are NaN. Forward transfer compares the accuracy on a task just
    before training on it with that of the untrained network; backward transfer compares the final
    accuracy with that just after training on it; forgetting, with the best one ever.

    >>> scores(np.array([[90.0, 20.0], [80.0, 95.0]]), np.array([10.0, 10.0]))
    Scores(accuracy=87.5, fwt=10.0, bwt=-10.0, forgetting=10.0)
    """
    rows, tasks = matrix.shape
    final = matrix[-1]
    accuracy = float(final.mean())
    if rows != tasks or tasks < 2 or untrained is None:
        return Scores(accuracy, None, None, None)
    ahead = np.diagonal(matrix, offset=1) - untrained[1:]
    back = final[:-1] - np.diagonal(matrix)[:-1]
    lost = np.nanmax(matrix[:, :-1], axis=0) - final[:-1]
    return Scores(accuracy, float(ahead.mean()), float(back.mean()), float(lost.mean()))
