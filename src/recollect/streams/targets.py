"""Regression and multi-label targets of streams, and example weights."""

from __future__ import annotations

import torch
from torch import Tensor

from recollect.core.targets import CLASS, LARGEST_WEIGHT, TARGETS, Target
from recollect.errors import InputError
from recollect.streams.checks import Array, finite, numbers_of
from recollect.streams.stream import Stream

__all__ = ["checked_weights", "target_of", "values_of", "without_weights"]


def target_of(stream: Stream) -> Target:
    """Return the target type of a stream, from its setting.

    >>> from recollect.streams import benchmark
    >>> target_of(benchmark("seq-digits")).name
    'class'
    """
    found = TARGETS.get(stream.setting, CLASS)
    return found.with_weights() if getattr(stream, "weighted", False) else found


def values_of(y: Array, target: str, name: str, length: int) -> Tensor:
    """Validate regression targets `[N, D]` or label indicators `[N, C]`.

    >>> import numpy as np
    >>> values_of(np.array([0.5, 1.5]), "regression", "y", 2)
    tensor([[0.5000],
            [1.5000]])
    """
    found = numbers_of(y, name)
    found = found.unsqueeze(1) if found.dim() == 1 and target == "regression" else found
    if found.dim() != 2 or len(found) != length or not found.shape[1]:
        each = "[N] or [N, D]" if target == "regression" else "[N, C], a column for every label"
        raise InputError(
            f"{name} has the shape {list(found.shape)} for {length} examples: it must be {each}"
        )
    if target == "regression":
        return finite(found.to(torch.float32), name)
    if not bool(((found == 0) | (found == 1)).all()):
        raise InputError(f"{name} must be 1 where an example has a label, and 0 elsewhere")
    return found.to(torch.int8)


def checked_weights(weights: Array, length: int) -> Tensor:
    """Validate example weights `[N]`: all must be above 0 and at most a million."""
    found = numbers_of(weights, "weights").to(torch.float32)
    if found.shape != (length,):
        raise InputError(
            f"weights have the shape {list(found.shape)}, but one number for each of the {length} "
            f"examples is expected: [{length}]"
        )
    finite(found, "weights")
    if not bool(((found > 0) & (found <= LARGEST_WEIGHT)).all()):
        raise InputError(
            f"weights must be above 0, and at most {LARGEST_WEIGHT:g}: leave examples without a "
            f"weight out, and divide large ones by their mean"
        )
    return found


def without_weights(y: Tensor, like: Tensor) -> Tensor:
    """Remove the column of weights from targets `[N, ...]`, to match those of the test set.

    >>> from recollect.core.targets import with_weights
    >>> y = with_weights(torch.tensor([2, 0]), torch.tensor([1.0, 0.5]))
    >>> without_weights(y, torch.tensor([1]))
    tensor([2, 0])
    """
    if y.shape[1:] == like.shape[1:]:
        return y
    plain = y[:, 1] if like.dim() == 1 else y[:, 1:]
    return plain.to(like.dtype)
