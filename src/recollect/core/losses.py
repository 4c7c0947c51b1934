"""Losses that reduce to one value per run, `[K]`; their mean over no examples is zero."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["among", "cross_entropy", "cross_entropy_among", "squared_distance"]


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean cross-entropy of every run: logits `[K, B, C]`, labels `[K, B]`, result `[K]`.

    >>> cross_entropy(torch.zeros(2, 5, 4), torch.zeros(2, 5, dtype=torch.long))
    tensor([1.3863, 1.3863])
    >>> cross_entropy(torch.zeros(2, 0, 4), torch.zeros(2, 0, dtype=torch.long))
    tensor([0., 0.])
    """
    surprise = -logits.log_softmax(2).gather(2, labels.unsqueeze(2))
    return surprise.sum((1, 2)) / max(labels.shape[1], 1)


def among(classes: Tensor, logits: Tensor) -> Tensor:
    """Log-probabilities `[K, n, C]` among some of the classes, `[K, C]`, only.

    >>> among(torch.tensor([[True, False]]), torch.zeros(1, 1, 2)).exp()
    tensor([[[1., 0.]]])
    """
    low = torch.finfo(logits.dtype).min
    return logits.masked_fill(~classes.unsqueeze(1), low).log_softmax(2)


def cross_entropy_among(classes: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
    """The mean cross-entropy of every run, `[K]`, where only some classes `[K, C]` compete."""
    surprise = -among(classes, logits).gather(2, labels.unsqueeze(2))
    return surprise.sum((1, 2)) / max(labels.shape[1], 1)


def squared_distance(logits: Tensor, target: Tensor) -> Tensor:
    """The squared difference of every run, averaged over examples and classes.

    This is the paper's squared norm divided by the number of classes; its published weights
    `alpha` belong to this scale.

    >>> squared_distance(torch.full((2, 3, 4), 2.0), torch.zeros(2, 3, 4))
    tensor([4., 4.])
    """
    _, examples, classes = logits.shape
    return (logits - target).square().sum((1, 2)) / max(examples * classes, 1)
