"""What decides which examples are kept and which are replayed."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from recollect.memory.clock import Clock

__all__ = ["Rule", "later_stays"]

MANY = 512


class Rule(Protocol):
    """A rule is a pure function of seeds and clock, so it can be worked out before the steps.

    >>> from recollect.memory import Reservoir
    >>> rule: Rule = Reservoir(capacity=3)
    >>> rule.slots(torch.tensor([0]), Clock(), steps=1, batch=2)
    tensor([[[0, 1]]])
    """

    @property
    def capacity(self) -> int:
        """How many examples a run keeps."""

    def sizes(self, clock: Clock, draws: int, replay: int) -> tuple[int, ...]:
        """How many examples each draw of the next step has."""

    def steady(self, clock: Clock, replay: int) -> bool:
        """Whether draws keep their sizes until the end of the task."""

    def slots(self, seeds: Tensor, clock: Clock, steps: int, batch: int) -> Tensor:
        """Where the examples of the coming steps go, `[steps, K, batch]`.

        The slot `capacity` means: not kept. A rule that never keeps any gives `[steps, K, 0]`.
        """

    def draws(
        self, seeds: Tensor, clock: Clock, steps: int, batch: int, sizes: tuple[int, ...]
    ) -> Tensor:
        """The slots to replay in the coming steps, `[steps, K, sum(sizes)]`."""


def later_stays(slot: Tensor, capacity: int) -> Tensor:
    """Of two examples of a batch `[..., B]` that go to one slot, only the later one stays there.

    >>> later_stays(torch.tensor([[4, 2, 4]]), capacity=9)
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
