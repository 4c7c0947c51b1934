"""Prediction targets: a class, regression values, or several labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor

from recollect.core.criteria import BINARY_CROSS_ENTROPY, SQUARED_ERROR, Weighted
from recollect.core.losses import CROSS_ENTROPY, Criterion
from recollect.errors import InputError, unknown_name

__all__ = [
    "CLASS", "LABELS", "LARGEST_WEIGHT", "REGRESSION", "TARGETS", "Target", "target_named",
    "with_weights",
]  # fmt: skip

LARGEST_WEIGHT = 1e6  # a larger one is probably a mistake, and the step would diverge
Layout = tuple[tuple[int, ...], torch.dtype]  # the shape and type of one example's y


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
