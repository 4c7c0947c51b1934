"""What is predicted of an example: its class, values, or several labels."""

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

LARGEST_WEIGHT = 1e6  # a larger one is rather a mistake, and the step would diverge
Layout = tuple[tuple[int, ...], torch.dtype]  # the shape and type of one example's y


@final
@dataclass(frozen=True)
class Target:
    """What is predicted of an example, as y says it, and the loss that belongs to it.

    y is `[K, n]` for classes, and `[K, n, C]` with a value for each of C outputs otherwise. Where
    examples are `weighted`, y has the weight in a first column: `[K, n, 2]` or `[K, n, 1 + C]`.
    Methods that give y to `step.criterion` alone need not know which it is.

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
        """Whether y `[K, n]` is the number of a class, which any method can read."""
        return self.name == "class" and not self.weighted

    def with_weights(self) -> Target:
        """The same for examples that have weights."""
        if self.weighted:
            return self
        return replace(self, criterion=Weighted(self.criterion), dtype=torch.float32, weighted=True)

    def layout(self, outputs: int) -> Layout:
        """The shape and type of one example's y, for so many outputs of the network."""
        if self.classes:
            return (), self.dtype
        values = 1 if self.name == "class" else outputs
        return (values + self.weighted,), self.dtype

    def check(self, y: Tensor, outputs: int) -> None:
        """Refuse targets `[K, n, ...]` that are not of this kind, for so many outputs."""
        if self.criterion is CROSS_ENTROPY:
            _check_numbers(y, outputs)
            return
        shape, dtype = self.layout(outputs)
        if tuple(y.shape[2:]) != shape or (y.is_floating_point() != dtype.is_floating_point):
            kind = "real" if dtype.is_floating_point else "whole"
            raise InputError(
                f"y of the target {self.name!r} must be [K, n{''.join(f', {s}' for s in shape)}] "
                f"of {kind} numbers, not {list(y.shape)} of {y.dtype}"
            )
        if not y.numel():
            return
        plain = y[..., 1:] if self.weighted else y
        if self.weighted and not bool((y[..., 0] >= 0).all() & y[..., 0].isfinite().all()):
            raise InputError("weights must be finite numbers of at least 0")
        if self.name == "class":
            _check_numbers(plain, outputs)
        elif self.name == "regression" and not bool(plain.isfinite().all()):
            raise InputError("values to be predicted must be finite: leave the others out")
        elif self.name == "labels" and not bool(((plain >= -1) & (plain <= 1)).all()):
            raise InputError("several labels are 1 (has it), 0 (has it not) or -1 (not known)")


def _check_numbers(y: Tensor, outputs: int) -> None:
    low, high = map(int, y.aminmax()) if y.numel() else (0, 0)
    if low < 0 or high >= outputs:
        raise InputError(
            f"labels must be in 0..{outputs - 1}, the head of the network, not {low}..{high}"
        )


CLASS = Target("class", CROSS_ENTROPY, torch.int64)
REGRESSION = Target("regression", SQUARED_ERROR, torch.float32)
LABELS = Target("labels", BINARY_CROSS_ENTROPY, torch.int8)
TARGETS = {target.name: target for target in (CLASS, REGRESSION, LABELS)}


def target_named(name: str) -> Target:
    """The target of this name: `class`, `regression` or `labels`.

    >>> target_named("regression").criterion
    SquaredError()
    """
    if name not in TARGETS:
        raise unknown_name("target", name, TARGETS)
    return TARGETS[name]


def with_weights(y: Tensor, weights: Tensor) -> Tensor:
    """Targets `[..., n]` or `[..., n, C]` with the weights `[..., n]` in a first column.

    >>> with_weights(torch.tensor([2, 0]), torch.tensor([1.0, 0.5]))
    tensor([[1.0000, 2.0000],
            [0.5000, 0.0000]])
    """
    values = y if y.dim() > weights.dim() else y.unsqueeze(-1)
    return torch.cat([weights.to(torch.float32).unsqueeze(-1), values.to(torch.float32)], -1)
