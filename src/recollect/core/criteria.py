"""Losses for regression, multi-label classification and weighted examples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from torch.nn import functional

from recollect.core.losses import CROSS_ENTROPY, Criterion

__all__ = [
    "BINARY_CROSS_ENTROPY",
    "SQUARED_ERROR",
    "BinaryCrossEntropy",
    "SquaredError",
    "Weighted",
]


@final
@dataclass(frozen=True)
class SquaredError:
    """Mean squared error for regression targets y `[K, n, D]`, averaged over the D values.

    >>> SquaredError()(torch.zeros(1, 2, 2), torch.tensor([[[1.0, 1.0], [3.0, 1.0]]]))
    tensor([3.])
    """

    def __call__(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The mean loss of every run, `[K]`."""
        return (outputs - y).square().sum((1, 2)) / max(y.shape[1] * y.shape[2], 1)

    def each(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The loss of every example, `[K, n]`."""
        return (outputs - y).square().mean(-1)

    def error(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The gradient of every example's loss with respect to the outputs, `[K, n, C]`."""
        return (outputs - y) * (2 / y.shape[-1])

    def expected_errors(
        self, outputs: Tensor, classes: Tensor | None = None, draws: Tensor | None = None
    ) -> Iterator[Tensor]:
        """Errors whose squares are the Fisher information of unit-variance normal outputs."""
        yield from _by_output(torch.ones_like(outputs), draws)


@final
@dataclass(frozen=True)
class BinaryCrossEntropy:
    """Binary cross-entropy for multi-label targets y `[K, n, C]`, summed over the labels.

    y is 1 for a label that is present and 0 for one that is absent; a negative value means that
    the label is unknown and contributes no loss. Labels are summed, not averaged, so that adding
    outputs for new labels does not change the loss of the existing ones.

    >>> BinaryCrossEntropy()(torch.zeros(1, 1, 3), torch.tensor([[[1, 0, -1]]]))
    tensor([1.3863])
    """

    def __call__(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The mean loss of every run, `[K]`."""
        return self.each(outputs, y).sum(1) / max(y.shape[1], 1)

    def each(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The loss of every example, `[K, n]`."""
        target = y.to(outputs.dtype)
        # torch's implementation has a finite gradient for any logit.
        losses = functional.binary_cross_entropy_with_logits(outputs, target, reduction="none")
        return torch.where(y < 0, 0.0, losses).sum(-1)

    def error(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The gradient of every example's loss with respect to the outputs, `[K, n, C]`."""
        return torch.where(y < 0, 0.0, outputs.sigmoid() - y.to(outputs.dtype))

    def expected_errors(
        self, outputs: Tensor, classes: Tensor | None = None, draws: Tensor | None = None
    ) -> Iterator[Tensor]:
        """Errors whose squares are the Fisher information of independent Bernoulli outputs."""
        p = outputs.sigmoid()
        yield from _by_output((p * (1 - p)).sqrt(), draws)


@final
@dataclass(frozen=True)
class Weighted:
    """A criterion with example weights, stored in the first column of y `[K, n, 1 + E]`.

    Losses are multiplied by the weights and divided by the number of examples, not by the sum of
    weights: an example of weight 2 contributes twice the gradient, even as the only one in a batch.

    >>> y = torch.tensor([[[2.0, 0.0], [0.5, 0.0]]])  # the weight, and the class
    >>> Weighted(CROSS_ENTROPY)(torch.zeros(1, 2, 4), y)
    tensor([1.7329])
    """

    base: Criterion

    def __call__(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The mean loss of every run, `[K]`."""
        return self.each(outputs, y).sum(1) / max(y.shape[1], 1)

    def each(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The loss of every example, `[K, n]`."""
        return self.base.each(outputs, self._plain(y)) * y[..., 0].to(outputs.dtype)

    def error(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The gradient of every example's loss with respect to the outputs, `[K, n, C]`."""
        return self.base.error(outputs, self._plain(y)) * y[..., :1].to(outputs.dtype)

    def expected_errors(
        self, outputs: Tensor, classes: Tensor | None = None, draws: Tensor | None = None
    ) -> Iterator[Tensor]:
        """The errors of the base criterion; the Fisher information does not depend on weights."""
        return self.base.expected_errors(outputs, classes, draws)

    def _plain(self, y: Tensor) -> Tensor:
        return y[..., 1].long() if self.base is CROSS_ENTROPY else y[..., 1:]


def _by_output(size: Tensor, draws: Tensor | None) -> Iterator[Tensor]:
    """Yield an error `[K, n, D]` per output or, with draws `[K, n, A]`, for A sampled outputs."""
    count = size.shape[2]
    if draws is None:
        for one in torch.eye(count, dtype=size.dtype, device=size.device):
            yield size * one
        return
    share = (count / draws.shape[2]) ** 0.5
    for drawn in (draws * count).long().clamp(max=count - 1).unbind(2):
        yield size * functional.one_hot(drawn, count) * share


SQUARED_ERROR: Criterion = SquaredError()
BINARY_CROSS_ENTROPY: Criterion = BinaryCrossEntropy()
