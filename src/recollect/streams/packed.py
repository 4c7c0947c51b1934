"""Validate and pack examples that consist of several arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recollect.core.packing import STORED, Packing
from recollect.errors import InputError

__all__ = ["Parts", "is_parts", "packed"]

Parts = Mapping[str, Any] | tuple[Any, ...]


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


def _part(values: object, name: str) -> Tensor:
    if isinstance(values, np.ndarray):
        if values.dtype.kind not in "biuf":
            raise InputError(f"{name} holds {values.dtype}, but numbers are expected")
        native = values.astype(values.dtype.newbyteorder("="))
        values = torch.from_numpy(native.astype(np.float32) if native.dtype.kind == "f" else native)
    if not isinstance(values, Tensor):
        raise InputError(
            f"{name} is a {type(values).__name__}, but a numpy array or a torch tensor is expected"
        )
    found = values.detach().cpu().clone()
    if not found.dim() or not found.numel():
        raise InputError(
            f"{name} has the shape {list(found.shape)}: at least one example is needed, along the "
            f"first axis"
        )
    if found.is_floating_point():
        found = found.float()
        bad = (~found.isfinite()).flatten(1).any(1) if found.dim() > 1 else ~found.isfinite()
        if bad.any():
            raise InputError(
                f"{name} has NaN or infinite values (as float32) in {int(bad.sum())} examples, the "
                f"first being example {int(bad.nonzero()[0])}: remove or replace them"
            )
    elif found.dtype not in STORED:
        if found.is_complex():
            raise InputError(f"{name} holds {found.dtype}, but numbers are expected")
        found = found.long()
    return found
