"""A memory of fixed capacity for every run of a fleet."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from recollect.errors import InputError

__all__ = ["Memory", "Remembered"]


class Remembered(dict[str, Tensor]):
    """Remembered examples of K runs; each field `[K, n, ...]` is also an attribute.

    >>> past = Remembered(y=torch.tensor([[3, 1, 4]]))
    >>> past.y, past.narrow(1, 2).y
    (tensor([[3, 1, 4]]), tensor([[1, 4]]))
    """

    def __getattr__(self, name: str) -> Tensor:
        try:
            return self[name]
        except KeyError:
            known = ", ".join(self)
            raise AttributeError(f"the memory keeps {known}; it has no field {name!r}") from None

    def narrow(self, start: int, length: int) -> Remembered:
        """The examples start..start+length-1 of every run."""
        return Remembered({name: t.narrow(1, start, length) for name, t in self.items()})


class Memory:
    """Room for `capacity` examples per run, each a few named fields, read and written in place.

    Rows of all runs lie in one tensor per field, run after run, so that a read or a write is one
    flat copy whatever the capacity. One spare row at the end takes what is not to be kept.

    >>> memory = Memory(runs=2, capacity=3, fields={"y": ((), torch.int64)})
    >>> memory.write(memory.rows(torch.tensor([[0], [3]])), {"y": torch.tensor([[7], [8]])})
    >>> memory.fields().y
    tensor([[7, 0, 0],
            [0, 0, 0]])
    >>> memory.read(memory.rows(torch.tensor([[0, 1], [0, 1]]))).y
    tensor([[7, 0],
            [0, 0]])
    """

    def __init__(
        self,
        runs: int,
        capacity: int,
        fields: Mapping[str, tuple[tuple[int, ...], torch.dtype]],
        device: torch.device | str = "cpu",
    ) -> None:
        self.runs = runs
        self.capacity = capacity
        try:
            self.tensors = {
                name: torch.zeros(runs * capacity + 1, *shape, dtype=dtype, device=device)
                for name, (shape, dtype) in fields.items()
            }
        except torch.OutOfMemoryError:
            raise  # fewer runs at a time may fit
        except RuntimeError:
            of, take = "", "a smaller one"
            if runs > 1:
                of, take = f" for each of {runs} runs", "a smaller buffer or fewer runs at a time"
            raise InputError(
                f"a memory of {capacity} examples{of} does not fit here: take {take}"
            ) from None

    def over(self, tensors: dict[str, Tensor]) -> Memory:
        """The same memory, kept in other tensors."""
        other = Memory(self.runs, self.capacity, {})
        other.tensors = tensors
        return other

    def rows(self, slots: Tensor) -> Tensor:
        """Where slots `[..., K, n]` lie; one beyond the capacity is the spare row."""
        first = torch.arange(self.runs, device=slots.device)[:, None] * self.capacity
        spare = self.runs * self.capacity
        return torch.where(slots < self.capacity, slots + first, spare)

    def read(self, rows: Tensor) -> Remembered:
        """The examples at `rows` `[K, n]`."""
        flat = rows.view(-1)
        return Remembered(
            {
                name: tensor.index_select(0, flat).view(*rows.shape, *tensor.shape[1:])
                for name, tensor in self.tensors.items()
            }
        )

    def write(self, rows: Tensor, values: Mapping[str, Tensor]) -> None:
        """Overwrite `rows` `[K, n]`; no row but the spare may occur twice."""
        flat = rows.view(-1)
        for name, tensor in self.tensors.items():
            tensor.index_copy_(0, flat, values[name].flatten(0, 1))

    def fields(self) -> Remembered:
        """Everything that is kept, `[K, capacity, ...]`."""
        shape = (self.runs, self.capacity)
        return Remembered(
            {name: t[:-1].view(*shape, *t.shape[1:]) for name, t in self.tensors.items()}
        )

    @property
    def bytes_per_run(self) -> int:
        """The memory that one run holds."""
        return sum(t[0].numel() * t.element_size() * self.capacity for t in self.tensors.values())
