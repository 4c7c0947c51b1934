"""Prediction targets (a class, regression values, or several labels) and their losses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor
from torch.nn import functional

from recollect.core.losses import CROSS_ENTROPY, Criterion
from recollect.errors import InputError, unknown_name

LARGEST_WEIGHT = 1e6  # a larger one is probably a mistake, and the step would diverge
Layout = tuple[tuple[int, ...], torch.dtype]  # the shape and type of one example's y


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


@final
@dataclass(frozen=True)
class Target:
    """A kind of target y with its loss: classification, regression or multi-label.

    y is `[K, n]` for classes, otherwise `[K, n, C]` with a value for each of C outputs. If the
    examples are `weighted`, the first column of y is the weight: `[K, n, 2]` or `[K, n, 1 + C]`.
    Methods that only pass y to `step.criterion` work with every kind.

    >>> CLASS.layout(3), REGRESSION.layout(3), LABELS.layout(3)
    (((), torch.int64), ((3,), torch.float32), ((3,), torch.int8))
    >>> CLASS.with_weights().layout(3)
    ((2,), torch.float32)
    """

    name: str
    criterion: Criterion
    dtype: torch.dtype
    weighted: bool = False

    @property
    def classes(self) -> bool:
        """Whether y `[K, n]` is a class index without weights, which every method supports."""
        return self.name == "class" and not self.weighted

    def with_weights(self) -> Target:
        """The same target with example weights."""
        if self.weighted:
            return self
        return replace(self, criterion=Weighted(self.criterion), dtype=torch.float32, weighted=True)

    def layout(self, outputs: int) -> Layout:
        """The shape and type of one example's y for a network with this many outputs."""
        if self.classes:
            return (), self.dtype
        values = 1 if self.name == "class" else outputs
        return (values + self.weighted,), self.dtype

    def check(self, y: Tensor, outputs: int) -> None:
        """Raise an `InputError` unless y `[K, n, ...]` fits this target and number of outputs."""
        if self.criterion is CROSS_ENTROPY:
            _check_numbers(y, outputs)
            return
        shape, dtype = self.layout(outputs)
        if tuple(y.shape[2:]) != shape or (y.is_floating_point() != dtype.is_floating_point):
            kind = "floating-point" if dtype.is_floating_point else "integer"
            raise InputError(
                f"y for the target {self.name!r} must have the shape "
                f"[K, n{''.join(f', {s}' for s in shape)}] and a {kind} type, "
                f"not {list(y.shape)} of {y.dtype}"
            )
        if not y.numel():
            return
        plain = y[..., 1:] if self.weighted else y
        if self.weighted and not bool((y[..., 0] >= 0).all() & y[..., 0].isfinite().all()):
            raise InputError("example weights must be finite and at least 0")
        if self.name == "class":
            _check_numbers(plain, outputs)
        elif self.name == "regression" and not bool(plain.isfinite().all()):
            raise InputError(
                "regression targets must be finite: leave out examples with NaN or infinite values"
            )
        elif self.name == "labels" and not bool(((plain >= -1) & (plain <= 1)).all()):
            raise InputError("multi-label targets must be 1 (present), 0 (absent) or -1 (unknown)")


def _check_numbers(y: Tensor, outputs: int) -> None:
    low, high = map(int, y.aminmax()) if y.numel() else (0, 0)
    if low < 0 or high >= outputs:
        raise InputError(
            f"labels must be in 0..{outputs - 1}, for a network with {outputs} outputs, not in "
            f"{low}..{high}"
        )


CLASS = Target("class", CROSS_ENTROPY, torch.int64)
REGRESSION = Target("regression", SQUARED_ERROR, torch.float32)
LABELS = Target("labels", BINARY_CROSS_ENTROPY, torch.int8)
TARGETS = {target.name: target for target in (CLASS, REGRESSION, LABELS)}


def target_named(name: str) -> Target:
    """Look up a target by name: `class`, `regression` or `labels`.

    >>> target_named("regression").criterion
    SquaredError()
    """
    if not isinstance(name, str) or name not in TARGETS:
        raise unknown_name("target", name, TARGETS)
    return TARGETS[name]


def with_weights(y: Tensor, weights: Tensor) -> Tensor:
    """Prepend weights `[..., n]` to targets `[..., n]` or `[..., n, C]` as a first column.

    >>> with_weights(torch.tensor([2, 0]), torch.tensor([1.0, 0.5]))
    tensor([[1.0000, 2.0000],
            [0.5000, 0.0000]])
    """
    values = y if y.dim() > weights.dim() else y.unsqueeze(-1)
    return torch.cat([weights.to(torch.float32).unsqueeze(-1), values.to(torch.float32)], -1)
