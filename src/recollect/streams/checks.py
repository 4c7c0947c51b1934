"""Validate the arrays of a custom stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from recollect.core.packing import Packing
from recollect.errors import InputError
from recollect.streams.packed import Parts, packed

__all__ = ["Array", "Examples", "examples", "numbers_of"]

Array = npt.NDArray[Any] | Tensor


class Examples(NamedTuple):
    """Validated examples: x `[N, *shape]` uint8 or float32, y `[N]` or `[N, C]`, tasks `[N]`.

    For examples of several tensors, x contains packed rows.
    """

    x: Tensor
    y: Tensor
    task: Tensor
    packing: Packing | None = None
    weights: Tensor | None = None

    def rows(self, chosen: Tensor) -> Examples:
        """Return a subset of the examples."""
        weights = None if self.weights is None else self.weights[chosen]
        x, y, task = (tensor[chosen] for tensor in (self.x, self.y, self.task))
        return Examples(x, y, task, self.packing, weights)


def examples(
    x: Array | Parts,
    y: Array,
    task_ids: Array | None,
    *,
    like: Examples | None = None,
    values: Callable[[Array, str, int], Tensor] | None = None,
) -> Examples:
    """Validate and copy arrays; test examples must have the shape and type of `like`.

    y are class labels, or targets that `values` converts.
    """
    prefix = "" if like is None else "test "
    packing: Packing | None = None
    if isinstance(x, Mapping | tuple):
        packing, inputs = packed(x, f"{prefix}x", like and like.packing)
    else:
        inputs = _inputs(x, prefix)
    labels = (values or _class_numbers)(y, f"{prefix}y", len(inputs))
    task = torch.zeros(len(inputs), dtype=torch.int64)
    if task_ids is not None:
        task = _integers(task_ids, "task_ids" if like is None else "test_task_ids", len(inputs))
    if like is not None and inputs.shape[1:] != like.x.shape[1:]:
        raise InputError(
            f"a test example has the shape {list(inputs.shape[1:])}, but a training example has "
            f"{list(like.x.shape[1:])}: they must be alike"
        )
    if like is not None and inputs.dtype != like.x.dtype:
        raise InputError(
            f"test x holds {inputs.dtype}, but x holds {like.x.dtype}: they must be alike"
        )
    if like is not None and labels.shape[1:] != like.y.shape[1:]:
        raise InputError(
            f"test y has {labels.shape[1]} columns, and y has {like.y.shape[1]}: they must be alike"
        )
    return Examples(inputs, labels, task, packing)


def _inputs(x: Array, prefix: str) -> Tensor:
    inputs = numbers_of(x, f"{prefix}x")
    if inputs.dim() < 2:
        raise InputError(
            f"{prefix}x needs two dimensions or more (examples first), but its shape is "
            f"{list(inputs.shape)}: reshape it, for instance with x.reshape(len(x), -1)"
        )
    if inputs.numel() == 0:
        raise InputError(
            f"{prefix}x is empty (shape {list(inputs.shape)}): at least one example is needed"
        )
    if inputs.dtype != torch.uint8 and not inputs.is_floating_point():
        raise InputError(
            f"{prefix}x holds {inputs.dtype}, but uint8 or floating-point values are expected: "
            "convert it first"
        )
    if inputs.is_floating_point():
        inputs = inputs.to(torch.float32)
        bad = (~inputs.isfinite()).flatten(1).any(1).nonzero().flatten()
        if len(bad):
            raise InputError(
                f"{prefix}x has NaN or infinite values (as float32) in {len(bad)} examples, the "
                f"first being example {int(bad[0])}: remove or replace them"
            )
    return inputs


def _class_numbers(y: Array, name: str, length: int) -> Tensor:
    labels = _integers(y, name, length)
    if int(labels.min()) < 0:
        raise InputError(f"{name} has the negative label {int(labels.min())}: labels count from 0")
    return labels


def _integers(values: Array, name: str, length: int) -> Tensor:
    if isinstance(values, np.ndarray) and values.dtype.kind in "USO":
        raise InputError(
            f"{name} holds {values.dtype}, but numbers are expected: "
            f"np.unique({name.split()[-1]}, return_inverse=True)[1] counts them from 0"
        )
    tensor = numbers_of(values, name)
    if tensor.dim() != 1 or len(tensor) != length:
        raise InputError(
            f"{name} has the shape {list(tensor.shape)}, but one number for each of the "
            f"{length} examples is expected: [{length}]"
        )
    if tensor.dtype == torch.bool or tensor.is_floating_point() or tensor.is_complex():
        raise InputError(
            f"{name} holds {values.dtype}, but integers are expected: convert it first, as with "
            f"{name.split()[-1]}.{'long()' if isinstance(values, Tensor) else 'astype(int)'}; for "
            f"values to be estimated, pass target='regression'"
        )
    return tensor.to(torch.int64)


def numbers_of(values: Array, name: str) -> Tensor:
    """Copy an array to the CPU, so that later changes to the user's array have no effect."""
    if isinstance(values, Tensor):
        return values.detach().cpu().clone()
    if not isinstance(values, np.ndarray):
        raise InputError(
            f"{name} is a {type(values).__name__}, but a numpy array or a torch tensor is expected"
        )
    if values.dtype.kind not in "biuf":
        raise InputError(f"{name} holds {values.dtype}, but numbers are expected")
    if values.dtype.kind == "f":
        # Convert in NumPy, which has wider floats than PyTorch.
        with np.errstate(over="ignore"):
            return torch.from_numpy(values.astype(np.float32))
    native = values.dtype if values.dtype in (np.uint8, np.bool_) else np.dtype(np.int64)
    return torch.from_numpy(values.astype(native))
