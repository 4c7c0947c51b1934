"""A memory that fills in order, and in which a method then chooses what to replace."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recollect.memory.clock import Clock
from recollect.memory.reservoir import Reservoir

__all__ = ["Chosen"]


@dataclass(frozen=True)
class Chosen:
    """Examples go to the next free slot; when none is left, nowhere unless the method says so.

    Draws are uniform over what is filled, as from a reservoir; the last of them has the size
    `compared`, the others are replays.

    >>> rule = Chosen(capacity=3, compared=2)
    >>> rule.slots(torch.tensor([0]), Clock(seen=2), steps=1, batch=2)
    tensor([[[2, 3]]])
    >>> rule.sizes(Clock(seen=9), draws=2, replay=1)
    (1, 2)
    """

    capacity: int
    compared: int

    def sizes(self, clock: Clock, draws: int, replay: int) -> tuple[int, ...]:
        """As many as are asked for, or all there are."""
        filled = min(clock.seen, self.capacity)
        return (*[min(replay, filled)] * (draws - 1), min(self.compared, filled))

    def steady(self, clock: Clock, replay: int) -> bool:
        """Once there are enough."""
        return min(clock.seen, self.capacity) >= min(max(replay, self.compared), self.capacity)

    def slots(self, seeds: Tensor, clock: Clock, steps: int, batch: int) -> Tensor:
        """The next free slots, `[steps, K, batch]`."""
        number = torch.arange(clock.seen, clock.seen + steps * batch, device=seeds.device)
        slot = number.clamp(max=self.capacity).view(steps, 1, batch)
        return slot.expand(-1, len(seeds), -1)

    def draws(
        self, seeds: Tensor, clock: Clock, steps: int, batch: int, sizes: tuple[int, ...]
    ) -> Tensor:
        """Uniform draws without replacement, `[steps, K, sum(sizes)]`."""
        largest = (max(sizes),) * len(sizes)
        drawn = Reservoir(self.capacity).draws(seeds, clock, steps, batch, largest)
        parts = drawn.unflatten(2, (len(sizes), -1)).unbind(2)  # type: ignore[no-untyped-call]
        return torch.cat([part[..., :size] for part, size in zip(parts, sizes, strict=True)], 2)
