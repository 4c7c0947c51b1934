"""Reservoir sampling: every example of the stream is stored with the same probability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recollect.core.random import Purpose, below, bits, permute
from recollect.memory.clock import Clock
from recollect.memory.policy import Arrivals, Drawn, last_in_slot

__all__ = ["Reservoir", "without_replacement"]


@dataclass(frozen=True)
class Reservoir:
    """Reservoir sampling (Vitter, 1985), with uniform replays.

    Example number N (from 0) goes to slot N while there is room, and otherwise to a slot uniform
    in 0..N, if that is below the capacity. Of two examples of a batch that go to one slot, the
    later one stays there, as if they had come one by one.

    >>> policy = Reservoir(capacity=3)
    >>> policy.slots(Arrivals(torch.tensor([0, 1]), Clock(), steps=1, batch=3))
    tensor([[[0, 1, 2],
             [0, 1, 2]]])
    >>> policy.sizes(Clock(seen=2), draws=1, replay=5), policy.sizes(Clock(seen=100), 2, replay=5)
    ((2,), (3, 3))
    """

    capacity: int
    uses_labels: ClassVar[bool] = False

    def filled(self, seen: int) -> int:
        """How many slots are in use after `seen` examples."""
        return min(seen, self.capacity)

    def sizes(self, clock: Clock, draws: int, replay: int) -> tuple[int, ...]:
        """As many as are asked for, or all there are."""
        return (min(replay, self.filled(clock.seen)),) * draws

    def steady(self, clock: Clock, replay: int) -> bool:
        """Once there are enough."""
        return self.filled(clock.seen) >= min(replay, self.capacity)

    def slots(self, arrivals: Arrivals) -> Tensor:
        """Where the examples of the coming steps go, `[steps, K, batch]`."""
        number = arrivals.numbers[:, None]
        drawn = below(bits(arrivals.seeds[:, None], Purpose.SLOT, number), number + 1)
        slot = torch.where(number < self.capacity, number, drawn).clamp(max=self.capacity)
        return last_in_slot(slot, self.capacity)

    def draws(self, arrivals: Arrivals, sizes: tuple[int, ...]) -> Drawn:
        """Uniform draws without replacement, each independent of the others."""
        filled = arrivals.numbers[:, 0].clamp(max=self.capacity)
        return without_replacement(arrivals, filled, sizes)


def without_replacement(arrivals: Arrivals, filled: Tensor, sizes: tuple[int, ...]) -> Drawn:
    """Uniform draws from 0..filled-1, where `filled` `[steps]` may change from step to step.

    All draws of a step have one size.

    >>> arrivals = Arrivals(torch.tensor([0]), Clock(), steps=1, batch=10)
    >>> without_replacement(arrivals, torch.tensor([3]), sizes=(3,)).slots.sort().values
    tensor([[[0, 1, 2]]])
    """
    first, device = arrivals.clock.steps, arrivals.seeds.device
    when = torch.arange(first, first + arrivals.steps, device=device)[:, None, None]
    which = torch.arange(len(sizes), device=device)
    keys = bits(arrivals.seeds[:, None], Purpose.DRAW, when, which)
    index = torch.arange(sizes[0] if sizes else 0, device=device)
    return Drawn(permute(keys[..., None], index, filled[:, None, None, None]).flatten(2))
