"""A memory that is filled when a task ends, with an equal share for every task so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recollect.memory.clock import Clock
from recollect.memory.policy import Arrivals, Drawn
from recollect.memory.reservoir import without_replacement

__all__ = ["TaskShares"]


@dataclass(frozen=True)
class TaskShares:
    """Nothing is stored as it arrives; a method chooses what to store when a task ends.

    After t tasks each has a t-th of the memory, one after the other. Draws are uniform over all.

    >>> policy = TaskShares(capacity=10)
    >>> policy.stored((100, 100, 2)), policy.sizes(Clock(counts=(100, 100, 2)), 1, replay=50)
    ([3, 3, 2], (8,))
    """

    capacity: int
    uses_labels: ClassVar[bool] = False

    def stored(self, counts: tuple[int, ...]) -> list[int]:
        """How many examples are stored of tasks that have so many."""
        return [min(count, self.capacity // len(counts)) for count in counts]

    def sizes(self, clock: Clock, draws: int, replay: int) -> tuple[int, ...]:
        """As many as are asked for, or all there are."""
        return (min(replay, sum(self.stored(clock.counts))),) * draws

    def steady(self, clock: Clock, replay: int) -> bool:
        """Always: within a task nothing changes."""
        return True

    def slots(self, arrivals: Arrivals) -> Tensor:
        """None, `[steps, K, 0]`."""
        return arrivals.seeds.new_zeros(arrivals.steps, arrivals.runs, 0)

    def draws(self, arrivals: Arrivals, sizes: tuple[int, ...]) -> Drawn:
        """Uniform draws without replacement, `[steps, K, sum(sizes)]`."""
        total = sum(self.stored(arrivals.clock.counts))
        filled = torch.full((arrivals.steps,), total, device=arrivals.seeds.device)
        return without_replacement(arrivals, filled, sizes)
