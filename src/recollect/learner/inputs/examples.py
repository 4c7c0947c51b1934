"""Convert examples of a stream to tensors, and check their shape and type."""

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

STORED = (torch.uint8, torch.float16, torch.bfloat16, torch.float32, torch.int32, torch.int64)
WIDENED = {
    torch.float64: torch.float32, torch.bool: torch.float32, torch.int8: torch.int64,
    torch.int16: torch.int64, torch.uint16: torch.int64, torch.uint32: torch.int64,
}  # fmt: skip

NOT_NUMBERS = {"O": "objects", "U": "strings", "S": "bytes"}  # by numpy's kind


@final
@dataclass(frozen=True)
class Kind:
    """The shape and type of every example of a stream.

    With an encoder, this is the kind of its features, and `before` the kind of its inputs. If an
    example has several tensors, it is a row of a `packing`.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    before: Kind | None = None
    packing: Packing | None = None

    @classmethod
    def of(cls, batch: Tensor, before: Kind | None = None, packing: Packing | None = None) -> Kind:
        """Return the kind of the examples of a batch `[n, ...]`, or of packed rows."""
        return cls(tuple(batch.shape[1:]), batch.dtype, before, packing)

    @property
    def arriving(self) -> Kind:
        """The kind of the examples as they arrive, before any encoder."""
        return self.before or self

    def check(self, x: Tensor, packing: Packing | None = None) -> None:
        """Raise an `InputError` if a batch `[n, ...]`, or packed rows, are of another kind."""
        if self.packing is not None:
            self.packing.check(packing)
        elif packing is not None:
            raise InputError(
                f"an example must be one tensor of the shape {list(self.shape)}, like the first "
                f"ones, not a mapping or a tuple of tensors"
            )
        if x.shape[1:] != self.shape:
            raise InputError(
                f"an example must have the shape {list(self.shape)}, like the first ones, "
                f"not {list(x.shape[1:])}"
            )
        if x.dtype != self.dtype:
            raise InputError(
                f"examples must be {_name(self.dtype)}, like the first ones, "
                f"not {_name(x.dtype)}: convert them, for instance with numpy.asarray(x, "
                f"{_name(self.dtype)!r})"
            )

    def batch(self, x: Tensor, device: torch.device) -> tuple[Tensor, bool]:
        """Convert x to a batch `[n, ...]` on a device; also return whether it was a batch."""
        several = x.dim() > len(self.shape)
        if x.shape[several:] != self.shape:
            shape = ", ".join(map(str, self.shape))
            raise InputError(
                f"an example must have the shape [{shape}], like the first ones, and a batch of "
                f"them [n, {shape}], not {list(x.shape)}"
            )
        batch = batch_of(x, len(x) if several else None)
        self.check(batch)
        check_finite(batch)
        return batch.to(device), several


def tensor_of(x: object, *, masks: bool = False, like: torch.dtype | None = None) -> Tensor:
    """Convert x to a tensor of a type that can be stored: uint8, floats, or ints (token ids).

    Booleans become floats, unless `masks` is true. A list of whole numbers, which has no type of
    its own, becomes floats if those before were of the type `like`.

    >>> tensor_of([1, 0], like=torch.float32), tensor_of(np.array([1, 0]), like=torch.float32)
    (tensor([1., 0.]), tensor([1, 0]))
    """
    if not isinstance(x, Tensor):
        _refuse_masked(x)
        found_in = type(x).__name__
        try:
            array = np.asarray(x)
            if hasattr(x, "__array__"):
                found_in += f" of {NOT_NUMBERS.get(array.dtype.kind, array.dtype)}"
                if array.dtype.kind in "Of":
                    convert = "x.to_numpy(" if hasattr(x, "to_numpy") else "numpy.asarray(x, "
                    found_in += f": convert them, for instance with {convert}'float32')"
            if not array.dtype.isnative:
                array = array.astype(array.dtype.newbyteorder("="))
            found = torch.from_numpy(array.copy() if _unsafe(array) else array)
        except Exception:  # an array-like object may raise anything
            raise InputError(
                f"examples must be arrays, tensors or lists of numbers, not {found_in}"
            ) from None
    else:
        found = x.detach()
    if found.is_nested:
        raise InputError(
            "examples must have the same shape, but this is a nested tensor: pad it, for instance "
            "with torch.nested.to_padded_tensor(x, 0), and pass a mask or the lengths with it, as "
            "in {'x': padded, 'lengths': lengths}"
        )
    if found.layout != torch.strided or found.is_quantized:
        raise InputError("examples must be dense tensors, neither sparse nor quantised")
    if found.is_meta:
        raise InputError("examples must have values, which tensors on the device 'meta' have not")
    if masks and found.dtype == torch.bool:
        return found
    if found.dtype in WIDENED:
        found = found.to(WIDENED[found.dtype])
    if like is not None and like.is_floating_point and isinstance(x, list | tuple):
        found = found.to(like) if found.dtype == torch.int64 else found
    if found.dtype not in STORED:
        raise InputError(
            f"examples cannot be of type {_name(found.dtype)}: convert them to float32, or to "
            f"int64 for token ids"
        )
    return found.resolve_neg()  # NumPy cannot read a view that negates


def batch_of(x: Tensor, count: int | None, what: str = "labels") -> Tensor:
    """Check that x has `count` examples; if `count` is None, make x a batch of one.

    `what` names in an error what there are `count` of.
    """
    if count is None:
        x = x.unsqueeze(0)
    elif not x.dim() or len(x) != count:
        raise InputError(
            f"there are {count} {what}, but x {_size(x)}: give as many {what} as examples"
        )
    if not x.numel():
        raise InputError(f"x has no examples: its shape is {list(x.shape)}")
    return x


def device_of(device: torch.device | str) -> torch.device:
    """Return the device of this name; raise an `InputError` if it does not exist."""
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        return device_named(str(device))  # "auto", or an error that lists the devices
    if found.type == "cuda":
        return device_named(str(found))
    try:
        torch.zeros(1, device=found).item()
    except Exception as error:  # each backend of torch raises another one
        why = str(error).partition("\n")[0]
        raise InputError(
            f"torch cannot compute on the device {str(found)!r} here ({why}): give auto, cpu, cuda "
            f"or cuda:N"
        ) from None
    return found


def check_finite(batch: Tensor) -> None:
    """Raise an `InputError` if a batch `[n, ...]` contains NaN or infinity."""
    if batch.is_floating_point() and not _finite(batch):
        raise InputError("an example has values that are not finite (NaN or infinity)")


def _finite(x: Tensor) -> bool:
    # The sum is faster, but may overflow.
    return math.isfinite(float(x.sum())) or bool(torch.isfinite(x).all())


def _refuse_masked(x: object) -> None:
    for array in x if isinstance(x, list | tuple) else [x]:
        if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
            raise InputError(
                "an example has masked values: fill them in, or drop the example, before you "
                "observe or predict it"
            )


def _unsafe(array: np.ndarray) -> bool:
    """Whether torch cannot share the array's memory."""
    return not array.flags.writeable or any(stride < 0 for stride in array.strides)


def _size(x: Tensor) -> str:
    return f"has {len(x)} examples" if x.dim() else "is a single number"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
