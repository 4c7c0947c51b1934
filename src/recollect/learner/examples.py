"""Convert the examples of a stream to tensors, or refuse them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor

from recollect.core.packing import Packing
from recollect.errors import InputError
from recollect.train import device_named

__all__ = ["Kind", "batch_of", "check_finite", "device_of", "holds_labels", "tensor_of"]

STORED = (torch.uint8, torch.float16, torch.bfloat16, torch.float32, torch.int32, torch.int64)
WIDENED = {
    torch.float64: torch.float32, torch.bool: torch.float32, torch.int8: torch.int64,
    torch.int16: torch.int64, torch.uint16: torch.int64, torch.uint32: torch.int64,
}  # fmt: skip

NOT_NUMBERS = {"O": "objects", "U": "texts", "S": "bytes"}  # by numpy's letter


@final
@dataclass(frozen=True)
class Kind:
    """The shape and the type that every example of a stream has.

    `before` is the kind of what arrives, if an encoder makes examples of this kind of it. Where
    an example has several tensors, these are rows of a `packing`.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    before: Kind | None = None
    packing: Packing | None = None

    @classmethod
    def of(cls, batch: Tensor, before: Kind | None = None, packing: Packing | None = None) -> Kind:
        """The kind of the examples of a batch `[n, ...]`, or of rows of a packing."""
        return cls(tuple(batch.shape[1:]), batch.dtype, before, packing)

    @property
    def arriving(self) -> Kind:
        """The kind of what arrives."""
        return self.before or self

    def check(self, x: Tensor, packing: Packing | None = None) -> None:
        """Refuse a batch `[n, ...]`, or rows of a packing, of another kind."""
        if self.packing is not None:
            self.packing.check(packing)
        elif packing is not None:
            raise InputError(
                f"an example must be one tensor of the shape {list(self.shape)}, as the first ones "
                f"were, not a mapping or a tuple of several"
            )
        if x.shape[1:] != self.shape:
            raise InputError(
                f"an example must have the shape {list(self.shape)}, as the first ones had, "
                f"not {list(x.shape[1:])}"
            )
        if x.dtype != self.dtype:
            raise InputError(
                f"examples must be {_name(self.dtype)}, as the first ones were, "
                f"not {_name(x.dtype)}: convert them, as by numpy.asarray(x, "
                f"{_name(self.dtype)!r})"
            )

    def batch(self, x: Tensor, device: torch.device) -> tuple[Tensor, bool]:
        """x as a batch `[n, ...]` of this kind on a device, and whether it was a batch already."""
        several = x.dim() > len(self.shape)
        if x.shape[several:] != self.shape:
            shape = ", ".join(map(str, self.shape))
            raise InputError(
                f"an example must have the shape [{shape}], as the first ones had, and a batch of "
                f"them [n, {shape}], not {list(x.shape)}"
            )
        batch = batch_of(x, len(x) if several else None)
        self.check(batch)
        check_finite(batch)
        return batch.to(device), several


def tensor_of(x: object, *, masks: bool = False) -> Tensor:
    """x as a tensor of a type that can be stored: bytes, floats, or whole numbers (token ids).

    Truth values become floats, unless they are `masks`.
    """
    if not isinstance(x, Tensor):
        _refuse_masked(x)
        found_in = type(x).__name__
        try:
            array = np.asarray(x)
            if array.dtype.kind in NOT_NUMBERS and hasattr(x, "__array__"):
                found_in += f" of {NOT_NUMBERS[array.dtype.kind]}"
            if not array.dtype.isnative:
                array = array.astype(array.dtype.newbyteorder("="))
            found = torch.from_numpy(array.copy() if _unsafe(array) else array)
        except Exception:  # whatever an object that calls itself an array may do
            raise InputError(
                f"examples must be numbers in an array or a tensor, not {found_in}"
            ) from None
    else:
        found = x.detach()
    if found.layout != torch.strided or found.is_quantized or found.is_meta:
        raise InputError("examples must be plain tensors, neither sparse nor quantised")
    if masks and found.dtype == torch.bool:
        return found
    if found.dtype in WIDENED:
        found = found.to(WIDENED[found.dtype])
    if found.dtype not in STORED:
        raise InputError(f"examples cannot be of the type {_name(found.dtype)}")
    return found


def batch_of(x: Tensor, count: int | None) -> Tensor:
    """A batch of `count` examples, or of the one that x is."""
    if count is None:
        x = x.unsqueeze(0)
    elif not x.dim() or len(x) != count:
        raise InputError(
            f"there are {count} labels and {len(x) if x.dim() else 'no batch of'} examples"
        )
    if not x.numel():
        raise InputError(f"there are no examples in an input of shape {list(x.shape)}")
    return x


def holds_labels(y: object, examples: Tensor, kind: Kind | None) -> bool:
    """Whether a tuple is not one label but those of a batch, as a DataLoader gives them."""
    if not isinstance(y, tuple) or not examples.dim() or len(examples) != len(y):
        return False
    axes = len(kind.shape) if kind else max(examples.dim() - 1, 1)
    return examples.dim() == axes + 1


def device_of(device: torch.device | str) -> torch.device:
    """The device of this name; refused if there is none."""
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        return device_named(str(device))  # "auto", or refused with those that there are
    return device_named(str(found)) if found.type == "cuda" else found


def check_finite(batch: Tensor) -> None:
    """Refuse a batch `[n, ...]` with NaN or infinity in it."""
    if batch.is_floating_point() and not _finite(batch):
        raise InputError("an example has values that are not finite (NaN or infinity)")


def _finite(x: Tensor) -> bool:
    # The sum is faster; it may overflow.
    return math.isfinite(float(x.sum())) or bool(torch.isfinite(x).all())


def _refuse_masked(x: object) -> None:
    for array in x if isinstance(x, list | tuple) else [x]:
        if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
            raise InputError("an example has values that are masked, so it has no numbers there")


def _unsafe(array: np.ndarray) -> bool:
    """Whether torch cannot share the array's memory."""
    return not array.flags.writeable or any(stride < 0 for stride in array.strides)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
