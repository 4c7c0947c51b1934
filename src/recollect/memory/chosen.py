"""A memory that fills in order, and in which a method then chooses what to replace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recollect.memory.clock import Clock
from recollect.memory.policy import Arrivals, Drawn
from recollect.memory.reservoir import Reservoir

__all__ = ["Chosen"]


@dataclass(frozen=True)
class Chosen:
    """Examples go to the next free slot; when none is left, they are stored by the method or not.

    Draws are uniform over what is filled, as from a reservoir; the last of them has the size
    `compared`, the others are replays. A method chooses slots by `step.store_at`.

    >>> policy = Chosen(capacity=3, compared=2)
    >>> policy.slots(Arrivals(torch.tensor([0]), Clock(seen=2), steps=1, batch=2))
    tensor([[[2, 3]]])
    >>> policy.sizes(Clock(seen=9), draws=2, replay=1)
    (1, 2)
    """

    capacity: int
    compared: int
    uses_labels: ClassVar[bool] = False

    def sizes(self, clock: Clock, draws: int, replay: int) -> tuple[int, ...]:
        """As many as are asked for, or all there are."""
        filled = min(clock.seen, self.capacity)
        return (*[min(replay, filled)] * (draws - 1), min(self.compared, filled))

    def steady(self, clock: Clock, replay: int) -> bool:
        """Once there are enough."""
        return min(clock.seen, self.capacity) >= min(max(replay, self.compared), self.capacity)

    def slots(self, arrivals: Arrivals) -> Tensor:
        """The next free slots, `[steps, K, batch]`."""
        return arrivals.numbers.clamp(max=self.capacity)[:, None].expand(-1, arrivals.runs, -1)

    def draws(self, arrivals: Arrivals, sizes: tuple[int, ...]) -> Drawn:
        """Uniform draws without replacement, `[steps, K, sum(sizes)]`."""
        largest = (max(sizes),) * len(sizes)
        drawn = Reservoir(self.capacity).draws(arrivals, largest).slots
        parts = drawn.unflatten(2, (len(sizes), -1)).unbind(2)  # type: ignore[no-untyped-call]
        cut = [part[..., :size] for part, size in zip(parts, sizes, strict=True)]
        return Drawn(torch.cat(cut, 2))
