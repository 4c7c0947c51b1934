"""Losses that reduce to one value per run, `[K]`; their mean over no examples is zero."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

__all__ = ["cross_entropy", "squared_distance"]


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean cross-entropy of every run: logits `[K, B, C]`, labels `[K, B]`, result `[K]`.

    >>> import torch
    >>> cross_entropy(torch.zeros(2, 5, 4), torch.zeros(2, 5, dtype=torch.long))
    tensor([1.3863, 1.3863])
    >>> cross_entropy(torch.zeros(2, 0, 4), torch.zeros(2, 0, dtype=torch.long))
    tensor([0., 0.])
    """
    runs, examples = labels.shape
    each = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
    return each.view(runs, examples).sum(1) / max(examples, 1)


def squared_distance(logits: Tensor, target: Tensor) -> Tensor:
    """The squared difference of every run, averaged over examples and classes.

    This is the paper's squared norm divided by the number of classes; its published weights
    `alpha` belong to this scale.

    >>> import torch
    >>> squared_distance(torch.full((2, 3, 4), 2.0), torch.zeros(2, 3, 4))
    tensor([4., 4.])
    """
    each = (logits - target).square().flatten(1)
    return each.sum(1) / max(each.shape[1], 1)
