"""Memory policies: which examples are stored, and which are replayed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from recollect.errors import InputError
from recollect.memory.clock import Clock

__all__ = ["Arrivals", "Drawn", "Policy", "last_in_slot"]

MANY = 512


@dataclass(frozen=True)
class Arrivals:
    """What a policy knows of the coming steps: seeds, counts and labels, but no data.

    `seeds` are `[K]`; `labels` are those of the batches that arrive, `[steps, K, batch]`, and
    `counts` say how many examples of every class came before, `[K, C]`. Both are there for a policy
    with `uses_labels`; other policies may be asked before the labels are known.

    >>> arrivals = Arrivals(torch.tensor([0]), Clock(seen=5), steps=2, batch=3)
    >>> arrivals.numbers.tolist()
    [[5, 6, 7], [8, 9, 10]]
    """

    seeds: Tensor
    clock: Clock
    steps: int
    batch: int
    known: tuple[Tensor, Tensor] | None = None

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return len(self.seeds)

    @property
    def numbers(self) -> Tensor:
        """The numbers of the examples in the stream, from 0, `[steps, batch]`."""
        first, last = self.clock.seen, self.clock.seen + self.steps * self.batch
        return torch.arange(first, last, device=self.seeds.device).view(self.steps, self.batch)

    @property
    def labels(self) -> Tensor:
        """The labels of the coming steps, `[steps, K, batch]`."""
        return self._known[0]

    @property
    def counts(self) -> Tensor:
        """How many examples of every class came before the first of these steps, `[K, C]`."""
        return self._known[1]

    @property
    def _known(self) -> tuple[Tensor, Tensor]:
        if self.known is None:
            raise InputError("a memory policy that reads labels or counts sets uses_labels = True")
        return self.known


class Drawn(NamedTuple):
    """The slots to replay, `[steps, K, n]`, and which of them are real, if not all are.

    Where a run has fewer examples than asked for, a slot that is not `valid` fills the shape.

    >>> Drawn(torch.tensor([[[0, 2]]])).valid is None
    True
    """

    slots: Tensor
    valid: Tensor | None = None


class Policy(Protocol):
    """Decides which slot an example goes to, and which slots are replayed.

    A policy is a pure function of what it is given, so it can be evaluated for many steps before
    they are taken. It knows nothing of weights or data.

    >>> from recollect.memory import Reservoir
    >>> policy: Policy = Reservoir(capacity=3)
    >>> policy.slots(Arrivals(torch.tensor([0]), Clock(), steps=1, batch=2))
    tensor([[[0, 1]]])
    """

    @property
    def capacity(self) -> int:
        """How many examples a run stores."""

    @property
    def uses_labels(self) -> bool:
        """Whether slots or draws depend on labels."""

    def sizes(self, clock: Clock, draws: int, replay: int) -> tuple[int, ...]:
        """How many examples each draw of the next step has."""

    def steady(self, clock: Clock, replay: int) -> bool:
        """Whether draws keep their sizes until the end of the task."""

    def slots(self, arrivals: Arrivals) -> Tensor:
        """Where the examples of the coming steps go, `[steps, K, batch]`.

        The slot `capacity` means: not stored. A policy that never stores arriving examples, because
        a method writes to memory when a task ends, returns `[steps, K, 0]`.
        """

    def draws(self, arrivals: Arrivals, sizes: tuple[int, ...]) -> Drawn:
        """The slots to replay in the coming steps, `[steps, K, sum(sizes)]`."""


def last_in_slot(slot: Tensor, capacity: int) -> Tensor:
    """Of several examples of a batch `[..., B]` that go to one slot, only the last one stays there.

    >>> last_in_slot(torch.tensor([[4, 2, 4]]), capacity=9)
    tensor([[9, 2, 4]])
    """
    batch = slot.shape[-1]
    if batch > MANY:  # too many for a comparison of all with all
        order = slot.argsort(dim=-1, stable=True)
        ordered = slot.gather(-1, order)
        last = torch.ones_like(ordered, dtype=torch.bool)
        last[..., :-1] = ordered[..., 1:] != ordered[..., :-1]
        stays = torch.empty_like(last).scatter_(-1, order, last)
        return torch.where(stays, slot, capacity)
    later = torch.ones(batch, batch, dtype=torch.bool, device=slot.device).triu(1)
    overwritten = ((slot[..., :, None] == slot[..., None, :]) & later).any(-1)
    return torch.where(overwritten, capacity, slot)
