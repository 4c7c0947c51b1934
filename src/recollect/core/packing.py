"""Pack examples of several tensors into one row each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import torch
from torch import Tensor
from torch.nn import functional

from recollect.errors import InputError

WORD = 4  # bytes
STORED = (
    torch.bool, torch.uint8, torch.float16, torch.bfloat16, torch.float32, torch.int32, torch.int64,
)  # fmt: skip
TYPES = {str(dtype).removeprefix("torch."): dtype for dtype in STORED}


@final
@dataclass(frozen=True)
class Part:
    """The name (or position), shape and type of one tensor of an example.

    >>> Part("mask", (5,), torch.bool).words
    2
    """

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def words(self) -> int:
        """The number of 32-bit words that it takes in a row."""
        return math.ceil(math.prod(self.shape) * self.dtype.itemsize / WORD)

    def __str__(self) -> str:
        return f"{self.name!r} {list(self.shape)} of {_name(self.dtype)}"


@final
@dataclass(frozen=True)
class Packing:
    """The layout of an example of several tensors in one row of 32-bit words.

    Packing is lossless. The network is called with the unpacked tensors: as keyword arguments if
    they are `named`, else as positional arguments, in this order. Memories, files and streams can
    therefore store an example of several tensors like a vector.

    >>> packing = Packing.of({"ids": torch.tensor([[7, 8, 9]]), "size": torch.tensor([[0.5]])})
    >>> row = packing.pack({"ids": torch.tensor([[7, 8, 9]]), "size": torch.tensor([[0.5]])})
    >>> row.shape, row.dtype, packing.unpack(row)["ids"]
    (torch.Size([1, 7]), torch.int32, tensor([[7, 8, 9]]))
    """

    parts: tuple[Part, ...]
    named: bool = True

    @classmethod
    def of(cls, batch: Mapping[str, Tensor], *, named: bool = True) -> Packing:
        """Infer the packing of a batch of tensors `[n, ...]`; the order of names is irrelevant."""
        names = sorted(batch) if named else list(batch)
        return cls(tuple(Part(n, tuple(batch[n].shape[1:]), batch[n].dtype) for n in names), named)

    @cached_property
    def words(self) -> int:
        """The number of words in a row."""
        return sum(part.words for part in self.parts)

    def pack(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Pack a batch of tensors `[n, ...]` with exactly these parts into rows `[n, words]`."""
        rows = []
        for part in self.parts:
            tensor = batch[part.name]
            flat = tensor.reshape(len(tensor), -1).contiguous()
            if flat.stride(-1) != 1:  # torch ignores the stride of an axis of length 1
                flat = flat.clone(memory_format=torch.contiguous_format)
            numbers = flat.view(torch.uint8)
            rows.append(functional.pad(numbers, (0, part.words * WORD - numbers.shape[1])))
        return torch.cat(rows, 1).view(torch.int32)

    def unpack(self, rows: Tensor) -> dict[str, Tensor]:
        """Unpack rows `[..., words]` into new tensors `[..., *shape]`."""
        found = {}
        pieces = torch.split_with_sizes(rows, [part.words for part in self.parts], -1)
        for part, piece in zip(self.parts, pieces, strict=True):
            # Copy, because a view as a larger type needs an aligned address, and because a network
            # may change its inputs in place.
            numbers = piece.clone(memory_format=torch.contiguous_format)
            if part.dtype == torch.bool:
                numbers = numbers.view(torch.uint8)
            numbers = numbers.view(part.dtype)[..., : math.prod(part.shape)]
            found[part.name] = numbers.reshape(*rows.shape[:-1], *part.shape)
        return found

    def inputs(self, rows: Tensor, dtype: torch.dtype) -> dict[str, Tensor]:
        """Unpack rows as network inputs: floating-point tensors are converted to `dtype`."""
        unpacked = self.unpack(rows)
        return {n: t.to(dtype) if t.is_floating_point() else t for n, t in unpacked.items()}

    def given(self, inputs: Mapping[str, Tensor]) -> Any:
        """Return the tensors as the user passes them: a mapping, or a tuple."""
        return dict(inputs) if self.named else tuple(inputs.values())

    def floats(self, rows: Tensor) -> Tensor | None:
        """The floating-point values of rows `[n, words]`, as `[n, F]`; None if there are none.

        The result is `[n, 1, F]` if some of the tensors have more than one axis.
        """
        unpacked = self.unpack(rows)
        reals = [part for part in self.parts if part.dtype.is_floating_point]
        if not reals:
            return None
        found = torch.cat([unpacked[part.name].reshape(len(rows), -1).float() for part in reals], 1)
        return found if all(len(part.shape) < 2 for part in reals) else found.unsqueeze(1)

    def real_name(self, number: int) -> str:
        """Describe a column of `floats` by its tensor and position, for messages."""
        for part in self.parts:
            size = math.prod(part.shape) if part.dtype.is_floating_point else 0
            if number < size:
                break
            number -= size
        return f"number {number} of {part.name!r}"

    def over(self, transform: Callable[[Any], Any]) -> Callable[[Tensor], Tensor]:
        """Turn a user's transform of the tensors into a transform of rows `[n, words]`."""

        def transformed(rows: Tensor) -> Tensor:
            found: object = transform(self.given(self.unpack(rows)))
            if not isinstance(found, Mapping | tuple):
                raise InputError(
                    f"a transform of examples with several tensors must return a "
                    f"{'mapping' if self.named else 'tuple'} like the one that it received, not a "
                    f"{type(found).__name__}"
                )
            if isinstance(found, tuple):
                found = {str(number): part for number, part in enumerate(found)}
            return self.pack(self._alike(found, rows))

        return transformed

    def check(self, other: Packing | None) -> None:
        """Raise an `InputError` for examples of another packing, or of a single tensor (None)."""
        if other == self:
            return
        if other is None or other.named != self.named:
            raise InputError(f"an example must be {self}, like the first ones")
        mine, others = ({part.name: part for part in p.parts} for p in (self, other))
        what = "field" if self.named else "input"
        for name in mine.keys() - others.keys():
            raise InputError(f"the {what} {name!r} is missing: an example must be {self}")
        for name in others.keys() - mine.keys():
            raise InputError(f"the {what} {name!r} is unexpected: an example must be {self}")
        for name, part in mine.items():
            if others[name] != part:
                raise InputError(
                    f"the {what} {others[name]} must be {list(part.shape)} of {_name(part.dtype)}, "
                    f"as in the first examples"
                )

    def plain(self) -> dict[str, Any]:
        """Plain data to write to a file; see `restored`."""
        parts = [[part.name, list(part.shape), _name(part.dtype)] for part in self.parts]
        return {"parts": parts, "named": self.named}

    @classmethod
    def restored(cls, saved: Mapping[str, Any]) -> Packing:
        """Create a packing from the plain data of `plain`."""
        parts = tuple(
            Part(str(name), tuple(int(size) for size in shape), TYPES[dtype])
            for name, shape, dtype in saved["parts"]
        )
        return cls(parts, bool(saved["named"]))

    def __str__(self) -> str:
        what = "a mapping with" if self.named else "a tuple of"
        return f"{what} {', '.join(map(str, self.parts))}"

    def _alike(self, found: Mapping[str, Tensor], rows: Tensor) -> dict[str, Tensor]:
        """Check the tensors that a transform returned and convert them to the stored types."""
        for part in self.parts:
            tensor = found.get(part.name)
            wanted = (*rows.shape[:-1], *part.shape)
            alike = isinstance(tensor, Tensor) and tensor.shape == wanted
            if not alike or tensor.is_floating_point() != part.dtype.is_floating_point:  # type: ignore[union-attr]
                raise InputError(
                    f"a transform must return tensors with the names, shapes and types that it "
                    f"received: {part.name!r} is not {list(wanted)} of {_name(part.dtype)}"
                )
        return {part.name: found[part.name].to(part.dtype) for part in self.parts}


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
