r"""RanPAC: random projection, Gram matrix and ridge regression on fixed features.

Publication: M. D. McDonnell, D. Gong, A. Parvaneh, E. Abbasnejad, A. van den Hengel, "RanPAC:
Random Projections and Pre-trained Models for Continual Learning", NeurIPS 2023, arXiv 2307.02251,
section 4 and Algorithm 1; the choice of the ridge parameter is in the appendix.

With a fixed random matrix $W$ [L, M] of standard normal entries and $\phi$ the ReLU,
$h = \phi(f^\top W)$ for a feature $f$ [L]; over **all** tasks

$$G = \sum_n h_n h_n^\top, \qquad C = \sum_n h_n\, y_n^\top \ (y \text{ one-hot}), \qquad
W_o = (G + \lambda I)^{-1} C, \qquad \text{scores } h^\top W_o .$$

Ridge parameter: after every task again, from $10^{-8}, 10^{-7}, \ldots, 10^{8}$. The examples of
**this task alone** are split 80 : 20; $G$ and $C$ of the 80 % give $W_o$ for each value, and the
one with the smallest mean squared error to the one-hot targets of the 20 % is taken. It then serves
for the sums over all tasks (the 20 % included).

Without first-session adaptation (phase 1: a parameter-efficient fine-tuning of the network on the
first task, then frozen) nothing else changes: the features are those of the pre-trained network,
and $G$, $C$ start with the first task. With adaptation $G$ and $C$ also start with the first task,
after its training, from features of the adapted network in evaluation mode.

Where the authors' code (RanPAC/RanPAC, RanPAC.py) says more than the publication:

1. The split is by position, not drawn: the first int(0.8 n) examples in the order of a shuffled
   loader are the 80 %. On a tie of the errors the smallest value is taken.
2. Targets have a column for every class of the whole data set; columns of classes not seen are 0
   in $C$ and so in $W_o$. The mean squared error is over these columns too, which scales it but
   does not change the choice. Predictions are over the classes seen so far.
3. $M = 0$ means no projection **and no ReLU**, $h = f$. $M$ is 10000 by default.
4. `solve` in float32 instead of an inverse. No bias, no normalisation of features or weights.
5. Domain-incremental streams use the same sums; classes then recur in every task.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

RIDGES = [10.0**k for k in range(-8, 9)]


@dataclass
class RanpacState:
    """Gram matrix [M, M], class sums [M, C] and the ridge parameter chosen last."""

    gram: Tensor
    sums: Tensor
    ridge: float = 1.0


def empty(width: int, classes: int) -> RanpacState:
    """State before any example, for `width` projected features."""
    return RanpacState(
        torch.zeros(width, width, dtype=torch.float64),
        torch.zeros(width, classes, dtype=torch.float64),
    )


def project(features: Tensor, projection: Tensor | None) -> Tensor:
    """ReLU of `features` [N, L] times `projection` [L, M]; unchanged features without one."""
    if projection is None:
        return features
    return torch.clamp(features @ projection, min=0)


def accumulate(
    gram: Tensor, sums: Tensor, projected: Tensor, labels: Tensor
) -> tuple[Tensor, Tensor]:
    """Gram matrix and class sums after `projected` [N, M] with `labels` [N], one at a time."""
    gram, sums = gram.clone(), sums.clone()
    for h, label in zip(projected, labels.tolist(), strict=True):
        gram += torch.outer(h, h)
        sums[:, label] += h
    return gram, sums


def readout(gram: Tensor, sums: Tensor, ridge: float) -> Tensor:
    """Weights [M, C] of the ridge regression."""
    regular = gram + ridge * torch.eye(len(gram), dtype=gram.dtype)
    weights: Tensor = torch.linalg.solve(regular, sums)
    return weights


def validation_errors(
    projected: Tensor, labels: Tensor, classes: int, ridges: list[float]
) -> list[float]:
    """Mean squared error on the last part of one task, by ridge parameter; fit on int(0.8 n)."""
    count = int(0.8 * len(labels))
    start = empty(projected.shape[1], classes)
    gram, sums = accumulate(start.gram, start.sums, projected[:count], labels[:count])
    errors = []
    for ridge in ridges:
        weights, total = readout(gram, sums, ridge), 0.0
        for h, label in zip(projected[count:], labels[count:].tolist(), strict=True):
            target = torch.zeros(classes, dtype=projected.dtype)
            target[label] = 1
            total += float(((h @ weights - target) ** 2).sum())
        errors.append(total / ((len(labels) - count) * classes))
    return errors


def learn_task(
    state: RanpacState, projected: Tensor, labels: Tensor, ridges: list[float] | None = None
) -> RanpacState:
    """State after one task, `projected` [N, M] in the (shuffled) order in which it is split."""
    candidates = RIDGES if ridges is None else ridges
    gram, sums = accumulate(state.gram, state.sums, projected, labels)
    errors = validation_errors(projected, labels, sums.shape[1], candidates)
    return RanpacState(gram, sums, candidates[errors.index(min(errors))])


def scores(state: RanpacState, projected: Tensor) -> Tensor:
    """Scores [N, C] of `projected` [N, M]."""
    return projected @ readout(state.gram, state.sums, state.ridge)
