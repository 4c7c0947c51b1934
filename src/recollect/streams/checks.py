"""Validate and copy the arrays of a custom stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from recollect.core.packing import STORED, Packing
from recollect.core.targets import LARGEST_WEIGHT
from recollect.errors import InputError

Array = npt.NDArray[Any] | Tensor
Parts = Mapping[str, Any] | tuple[Any, ...]


def inputs_of(x: Array, name: str) -> Tensor:
    """Validate and copy single-tensor examples `[N, ...]`: uint8, or floats as float32."""
    inputs = _numbers(x, name)
    if inputs.dim() < 2:
        raise InputError(
            f"{name} needs two dimensions or more (examples first), but its shape is "
            f"{list(inputs.shape)}: reshape it, for instance with x.reshape(len(x), -1)"
        )
    if inputs.numel() == 0:
        raise InputError(
            f"{name} is empty (shape {list(inputs.shape)}): at least one example is needed"
        )
    if inputs.dtype != torch.uint8 and not inputs.is_floating_point():
        raise InputError(
            f"{name} holds {inputs.dtype}, but uint8 or floating-point values are expected: "
            "convert it first"
        )
    return _finite(inputs.float(), name) if inputs.is_floating_point() else inputs


def labels_of(y: Array, name: str, length: int) -> Tensor:
    """Validate class labels `[N]`: integers from 0."""
    labels = integers_of(y, name, length)
    if int(labels.min()) < 0:
        raise InputError(f"{name} has the negative label {int(labels.min())}: labels count from 0")
    return labels


def integers_of(values: Array, name: str, length: int) -> Tensor:
    """Validate and copy integers `[N]`, one for each of `length` examples."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "USO":
        raise InputError(
            f"{name} holds {values.dtype}, but numbers are expected: "
            f"np.unique({name.split()[-1]}, return_inverse=True)[1] counts them from 0"
        )
    tensor = _numbers(values, name)
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


def values_of(y: Array, target: str, name: str, length: int) -> Tensor:
    """Validate regression targets `[N, D]` or label indicators `[N, C]`.

    >>> import numpy as np
    >>> values_of(np.array([0.5, 1.5]), "regression", "y", 2)
    tensor([[0.5000],
            [1.5000]])
    """
    found = _numbers(y, name)
    found = found.unsqueeze(1) if found.dim() == 1 and target == "regression" else found
    if found.dim() != 2 or len(found) != length or not found.shape[1]:
        each = "[N] or [N, D]" if target == "regression" else "[N, C], a column for every label"
        raise InputError(
            f"{name} has the shape {list(found.shape)} for {length} examples: it must be {each}"
        )
    if target == "regression":
        return _finite(found.to(torch.float32), name)
    if not bool(((found == 0) | (found == 1)).all()):
        raise InputError(f"{name} must be 1 where an example has a label, and 0 elsewhere")
    return found.to(torch.int8)


def checked_weights(weights: Array, length: int) -> Tensor:
    """Validate example weights `[N]`: all must be above 0 and at most a million."""
    found = _numbers(weights, "weights").to(torch.float32)
    if found.shape != (length,):
        raise InputError(
            f"weights have the shape {list(found.shape)}, but one number for each of the {length} "
            f"examples is expected: [{length}]"
        )
    _finite(found, "weights")
    if not bool(((found > 0) & (found <= LARGEST_WEIGHT)).all()):
        raise InputError(
            f"weights must be above 0, and at most {LARGEST_WEIGHT:g}: leave examples without a "
            f"weight out, and divide large ones by their mean"
        )
    return found


def packed(x: Parts, name: str, like: Packing | None = None) -> tuple[Packing, Tensor]:
    """Pack arrays `[N, ...]` into rows `[N, words]`; test examples must match the packing `like`.

    Floating-point numbers become float32, and integers of other sizes int64.

    >>> packing, rows = packed({"ids": torch.tensor([[1, 2]]), "mask": torch.ones(1, 2) > 0}, "x")
    >>> print(packing)
    a mapping with 'ids' [2] of int64, 'mask' [2] of bool
    """
    given = x if isinstance(x, Mapping) else {str(n): part for n, part in enumerate(x)}
    if not given:
        raise InputError(f"{name} is empty: at least one array is needed")
    batch = {}
    for key, part in given.items():
        if not isinstance(key, str):
            raise InputError(f"{name} has the key {key!r}: the names of its arrays must be strings")
        batch[key] = _part(part, f"{name}[{key if isinstance(x, tuple) else repr(key)}]")
    sizes = {key: len(part) for key, part in batch.items()}
    if len(set(sizes.values())) > 1:
        raise InputError(f"the arrays of {name} have different numbers of examples: {sizes}")
    packing = Packing.of(batch, named=isinstance(x, Mapping))
    if like is not None:
        like.check(packing)
    return packing, packing.pack(batch)


def is_parts(example: object) -> bool:
    """Return True if an example has several tensors: a mapping, or a tuple of arrays.

    A tuple that can be stacked into a single array counts as one tensor.
    """
    if isinstance(example, Mapping):
        return True
    if not isinstance(example, tuple) or not example:
        return False
    if not all(isinstance(part, Tensor | np.ndarray) for part in example):
        return False
    kinds = {(tuple(part.shape), str(part.dtype)) for part in example}
    return len(kinds) > 1 or not any(word in kinds.pop()[1] for word in ("float", "uint8"))


def _part(values: Array, name: str) -> Tensor:
    found = _numbers(values, name, integers=STORED)
    if not found.dim() or not found.numel():
        raise InputError(
            f"{name} has the shape {list(found.shape)}: at least one example is needed, along the "
            f"first axis"
        )
    if found.is_complex():
        raise InputError(f"{name} holds {found.dtype}, but numbers are expected")
    if found.is_floating_point():
        return _finite(found.float(), name)
    return found if found.dtype in STORED else found.long()


def _numbers(
    values: Array, name: str, integers: Sequence[torch.dtype] = (torch.uint8, torch.bool)
) -> Tensor:
    """Copy an array to the CPU, so that later changes to the user's array have no effect.

    A NumPy array becomes float32, one of the types of `integers`, or int64.
    """
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
    found = torch.from_numpy(values.astype(values.dtype.newbyteorder("=")))
    return found if found.dtype in integers else found.long()


def _finite(values: Tensor, name: str) -> Tensor:
    """Return the values `[N, ...]`, and refuse NaN and infinity."""
    bad = (~values.isfinite()).reshape(len(values), -1).any(1).nonzero().flatten()
    if len(bad):
        raise InputError(
            f"{name} has NaN or infinite values (as float32) in {len(bad)} examples, the first "
            f"being example {int(bad[0])}: remove or replace them"
        )
    return values
