"""Metrics of regression and multi-label predictions on a test set."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

LOWER_IS_BETTER = frozenset({"rmse", "mae", "hamming"})


def measure(target: str, outputs: Tensor, y: Tensor) -> dict[str, Tensor]:
    """Compute the metrics `[K]` of outputs `[K, n, C]` for the targets y `[K, n, C]` of a test set.

    If outputs are not finite, RMSE and MAE are infinite, and R² is minus infinity.

    >>> found = measure("regression", torch.zeros(1, 2, 1), torch.tensor([[[3.0], [-3.0]]]))
    >>> {name: float(value) for name, value in found.items()}
    {'rmse': 3.0, 'mae': 3.0, 'r2': 0.0}
    """
    outputs, y = outputs.double().cpu(), y.double().cpu().expand(len(outputs), -1, -1)
    return {
        name: function(outputs, y).nan_to_num(worst(name), posinf=math.inf, neginf=-math.inf)
        for name, function in MEASURES[target].items()
    }


def worst(name: str) -> float:
    """The value of a metric for a run that diverged.

    >>> worst("rmse"), worst("r2")
    (inf, -inf)
    """
    return math.inf if name in LOWER_IS_BETTER else -math.inf


def _rmse(outputs: Tensor, y: Tensor) -> Tensor:
    """The root mean squared error of each output, averaged over the outputs."""
    return (outputs - y).square().mean(1).sqrt().mean(1)


def _mae(outputs: Tensor, y: Tensor) -> Tensor:
    return (outputs - y).abs().mean((1, 2))


def _r2(outputs: Tensor, y: Tensor) -> Tensor:
    """The coefficient of determination; for constant targets, 1 if all are exact, else 0."""
    left = (outputs - y).square().sum(1)
    all_ = (y - y.mean(1, keepdim=True)).square().sum(1)
    found = torch.where(all_ > 0, 1 - left / all_, torch.where(left > 0, 0.0, 1.0))
    return found.mean(1)


def _counts(outputs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """For every label `[K, C]`, the true positives, and the sum of predictions and occurrences."""
    said, has = outputs > 0, y > 0
    return (said & has).sum(1).double(), (said.sum(1) + has.sum(1)).double()


def _f1(outputs: Tensor, y: Tensor) -> Tensor:
    """Micro-averaged F1 over all pairs of example and label, in percent."""
    right, sum_ = _counts(outputs, y)
    return 200 * right.sum(1) / sum_.sum(1).clamp(min=1)


def _macro_f1(outputs: Tensor, y: Tensor) -> Tensor:
    """The mean F1 of the labels that occur or are predicted, in percent."""
    right, sum_ = _counts(outputs, y)
    present = sum_ > 0
    each = torch.where(present, 200 * right / sum_.clamp(min=1), 0.0)
    return each.sum(1) / present.sum(1).clamp(min=1)


def _hamming(outputs: Tensor, y: Tensor) -> Tensor:
    """The Hamming loss: the share of wrong pairs of example and label, in percent."""
    return 100 * ((outputs > 0) != (y > 0)).double().mean((1, 2))


def average_precision(outputs: Tensor, y: Tensor) -> Tensor:
    """The mean average precision of the labels that occur, `[K]`, in percent.

    The average precision of a label is the mean precision at the ranks of the examples that have
    it, sorted by decreasing output; ties share the lowest rank.
    """
    order = outputs.argsort(dim=1, descending=True, stable=True)
    score, has = outputs.gather(1, order), (y > 0).double().gather(1, order)
    count = score.shape[1]
    # Ties take the rank of the last of them.
    ends = torch.ones_like(score, dtype=torch.bool)
    ends[:, :-1] = score[:, 1:] != score[:, :-1]
    index = torch.arange(count).view(1, -1, 1).expand_as(score)
    last = torch.where(ends, index, count).flip(1).cummin(1).values.flip(1)
    found = has.cumsum(1).gather(1, last) / (last + 1)
    total = has.sum(1)
    each = (found * has).sum(1) / total.clamp(min=1)
    present = total > 0
    return 100 * torch.where(present, each, 0.0).sum(1) / present.sum(1).clamp(min=1)


Measure = Callable[[Tensor, Tensor], Tensor]
MEASURES: dict[str, dict[str, Measure]] = {
    "regression": {"rmse": _rmse, "mae": _mae, "r2": _r2},
    "labels": {
        "f1": _f1, "macro_f1": _macro_f1, "hamming": _hamming,
        "average_precision": average_precision,
    },
}  # fmt: skip
# The settings and metrics that are percentages.
PERCENT = frozenset({"class", "task", "domain", "general", *MEASURES["labels"]})
