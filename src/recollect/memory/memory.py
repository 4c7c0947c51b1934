"""A replay buffer of fixed capacity for every run of a fleet."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from recollect.errors import InputError


class Stored(dict[str, Tensor]):
    """Stored examples of K runs; each field `[K, n, ...]` is also an attribute.

    >>> past = Stored(y=torch.tensor([[3, 1, 4]]))
    >>> past.y, past.narrow(1, 2).y
    (tensor([[3, 1, 4]]), tensor([[1, 4]]))
    """

    def __getattr__(self, name: str) -> Tensor:
        try:
            return self[name]
        except KeyError:
            known = ", ".join(self)
            raise AttributeError(f"the memory stores {known}; it has no field {name!r}") from None

    def narrow(self, start: int, length: int) -> Stored:
        """The examples start..start+length-1 of every run."""
        return Stored({name: t.narrow(1, start, length) for name, t in self.items()})

    def split(self, sizes: Sequence[int]) -> list[Stored]:
        """Split the examples of every run into parts of these sizes."""
        parts = [torch.split_with_sizes(tensor, sizes, 1) for tensor in self.values()]
        each = zip(*parts, strict=True) if parts else ((),) * len(sizes)
        return [Stored(zip(self, part, strict=True)) for part in each]


class Memory:
    """A replay buffer of `capacity` examples per run, with named fields, written in place.

    There is one tensor per field with the rows of all runs, run after run, so that a read or a
    write is one flat copy whatever the capacity. A spare row at the end receives examples that are
    not stored.

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
            of, take = "", "a smaller buffer"
            if runs > 1:
                of, take = f" for each of {runs} runs", "a smaller buffer or fewer runs at a time"
            raise InputError(
                f"a buffer of {capacity} examples{of} does not fit in memory: use {take}"
            ) from None

    def rows(self, slots: Tensor) -> Tensor:
        """Convert slots `[..., K, n]` to rows; slots beyond the capacity become the spare row."""
        first = torch.arange(self.runs, device=slots.device)[:, None] * self.capacity
        return torch.where(slots < self.capacity, slots + first, self.spare)

    @property
    def spare(self) -> int:
        """The row for examples that are not stored."""
        return self.runs * self.capacity

    def stores_none(self, rows: Tensor) -> bool:
        """Whether all of `rows` `[K, n]` are the spare row."""
        return min(rows.flatten().tolist(), default=self.spare) == self.spare  # the last row

    def read(self, rows: Tensor) -> Stored:
        """Read the examples at `rows` `[K, n]`."""
        flat = rows.view(-1)
        return Stored(
            {
                name: tensor.index_select(0, flat).view(rows.shape + tensor.shape[1:])
                for name, tensor in self.tensors.items()
            }
        )

    def write(self, rows: Tensor, values: Mapping[str, Tensor]) -> None:
        """Overwrite some fields of `rows` `[K, n]`; only the spare row may occur twice."""
        flat = rows.reshape(-1)
        for name, value in values.items():
            declared = self.tensors[name]
            if value.shape[2:] != declared.shape[1:] or value.dtype != declared.dtype:
                raise InputError(
                    f"the field {name!r} is declared as {_described(declared, 1)}, but an example "
                    f"to store has {_described(value, 2)}: declare what you store; a width that "
                    f"depends on the network is no field (docs/extend/method.md)"
                )
            self.tensors[name].index_copy_(0, flat, value.flatten(0, 1))

    def fields(self) -> Stored:
        """All slots of every run, `[K, capacity, ...]`, as views."""
        shape = (self.runs, self.capacity)
        return Stored({name: t[:-1].view(*shape, *t.shape[1:]) for name, t in self.tensors.items()})

    def copy(self) -> Memory:
        """An independent copy."""
        found = copy.copy(self)
        found.tensors = {name: tensor.clone() for name, tensor in self.tensors.items()}
        return found

    @property
    def bytes_per_run(self) -> int:
        """The size of one run's examples in bytes."""
        return sum(t[0].numel() * t.element_size() * self.capacity for t in self.tensors.values())


def _described(tensor: Tensor, leading: int) -> str:
    return f"{[*tensor.shape[leading:]]} of {tensor.dtype}"
