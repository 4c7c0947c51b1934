"""Losses that return one value per run, `[K]`; the loss of an empty batch is zero."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

__all__ = [
    "CROSS_ENTROPY",
    "Criterion",
    "cross_entropy",
    "cross_entropy_among",
    "log_softmax_among",
    "squared_distance",
    "supervised_contrastive",
]


class Criterion(Protocol):
    """A loss with what per-example gradients and the Fisher information need."""

    def __call__(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The mean loss of every run, `[K]`, for outputs `[K, n, C]` and targets `[K, n, ...]`."""

    def each(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The loss of every example, `[K, n]`."""

    def error(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The gradient of every example's loss with respect to the outputs, `[K, n, C]`."""

    def expected_errors(
        self, outputs: Tensor, classes: Tensor | None = None, draws: Tensor | None = None
    ) -> Iterator[Tensor]:
        """Yield errors `[K, n, C]` whose squares sum to the Fisher information at the outputs.

        For cross-entropy: the gradient of log p(c|x) with respect to the logits, times the square
        root of p(c|x), for every class c. `classes` `[K, C]` is a mask of the classes in the
        softmax. With `draws` `[K, n, A]`, uniform in [0, 1), A labels are sampled from p instead,
        each weighted by 1/A.
        """


class _CrossEntropy:
    def __call__(self, outputs: Tensor, y: Tensor) -> Tensor:
        return _mean(outputs.log_softmax(2), y)

    def each(self, outputs: Tensor, y: Tensor) -> Tensor:
        return -outputs.log_softmax(-1).gather(-1, y.unsqueeze(-1)).squeeze(-1)

    def error(self, outputs: Tensor, y: Tensor) -> Tensor:
        labels = torch.arange(outputs.shape[-1], device=y.device)
        return outputs.softmax(-1) - (y.unsqueeze(-1) == labels).to(outputs.dtype)

    def expected_errors(
        self, outputs: Tensor, classes: Tensor | None = None, draws: Tensor | None = None
    ) -> Iterator[Tensor]:
        p = outputs.softmax(2) if classes is None else log_softmax_among(classes, outputs).exp()
        size = p.shape[2]
        if draws is None:
            for answer in torch.eye(size, dtype=p.dtype, device=p.device):
                yield (p * answer).sum(2, keepdim=True).sqrt() * (answer - p)
        else:
            up_to = p.double().cumsum(2)
            drawn = torch.searchsorted(up_to, draws * up_to[..., -1:], right=True)
            for answer in drawn.clamp(max=size - 1).unbind(2):
                yield (functional.one_hot(answer, size) - p) * drawn.shape[2] ** -0.5


CROSS_ENTROPY: Criterion = _CrossEntropy()


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean cross-entropy of every run: logits `[K, B, C]`, labels `[K, B]`, result `[K]`.

    >>> cross_entropy(torch.zeros(2, 5, 4), torch.zeros(2, 5, dtype=torch.long))
    tensor([1.3863, 1.3863])
    >>> cross_entropy(torch.zeros(2, 0, 4), torch.zeros(2, 0, dtype=torch.long)).abs()
    tensor([0., 0.])
    """
    return CROSS_ENTROPY(logits, labels)


def log_softmax_among(classes: Tensor, logits: Tensor) -> Tensor:
    """Log-softmax `[K, n, C]` over the classes in a mask `[K, C]`; the others have probability 0.

    >>> log_softmax_among(torch.tensor([[True, False]]), torch.zeros(1, 1, 2)).exp()
    tensor([[[1., 0.]]])
    """
    low = torch.finfo(logits.dtype).min
    return logits.masked_fill(~classes.unsqueeze(1), low).log_softmax(2)


def cross_entropy_among(classes: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
    """The mean cross-entropy of every run, `[K]`, over the classes in a mask `[K, C]`."""
    return _mean(log_softmax_among(classes, logits), labels)


def _mean(log_p: Tensor, labels: Tensor) -> Tensor:
    each = log_p.gather(2, labels.unsqueeze(2))
    return each.sum((1, 2)) / -max(labels.shape[1], 1)


def squared_distance(logits: Tensor, target: Tensor) -> Tensor:
    """The mean squared error between logits `[K, n, C]` of every run, `[K]`.

    This is the paper's squared norm divided by the number of classes; its published values of
    `alpha` refer to this scale.

    >>> squared_distance(torch.full((2, 3, 4), 2.0), torch.zeros(2, 3, 4))
    tensor([4., 4.])
    """
    _, examples, classes = logits.shape
    return (logits - target).square().sum((1, 2)) / max(examples * classes, 1)


def supervised_contrastive(points: Tensor, labels: Tensor, temperature: Tensor | float) -> Tensor:
    """The supervised contrastive loss (Khosla et al., 2020) of unit-length embeddings, `[K]`.

    Points `[K, n, D]` with the same label `[K, n]` are positives, all other points are negatives.
    A point that is the only one of its label contributes nothing. There may be further axes after
    the first one; the temperature is a number or a tensor of these leading axes.

    >>> points = torch.eye(2)[[0, 1, 0, 1]].unsqueeze(0)
    >>> supervised_contrastive(points, torch.tensor([[0, 1, 0, 1]]), temperature=1)
    tensor([0.5514])
    """
    heat = torch.as_tensor(temperature, dtype=points.dtype, device=points.device)[..., None, None]
    itself = torch.eye(points.shape[-2], dtype=torch.bool, device=points.device)
    similar = (points @ points.mT / heat).masked_fill(itself, torch.finfo(points.dtype).min)
    same = (labels.unsqueeze(-1) == labels.unsqueeze(-2)) & ~itself
    log_share = torch.where(same, similar.log_softmax(-1), 0)
    each = log_share.sum(-1) / same.sum(-1).clamp(min=1)
    return -each.sum(-1) / max(points.shape[-2], 1)
