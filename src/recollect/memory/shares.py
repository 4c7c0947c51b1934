"""A memory that is filled when a task ends, with an equal share for every task so far."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recollect.memory.clock import Clock
from recollect.memory.reservoir import without_replacement

__all__ = ["TaskShares"]


@dataclass(frozen=True)
class TaskShares:
    """Nothing is kept as it arrives; a method chooses when a task is over.

    After t tasks each has a t-th of the memory, one after the other. Draws are uniform over all.

    >>> rule = TaskShares(capacity=10)
    >>> rule.kept((100, 100, 2)), rule.sizes(Clock(counts=(100, 100, 2)), draws=1, replay=50)
    ([3, 3, 2], (8,))
    """

    capacity: int

    def kept(self, counts: tuple[int, ...]) -> list[int]:
        """How many examples are kept of tasks that have so many."""
        return [min(count, self.capacity // len(counts)) for count in counts]

    def sizes(self, clock: Clock, draws: int, replay: int) -> tuple[int, ...]:
        """As many as are asked for, or all there are."""
        return (min(replay, sum(self.kept(clock.counts))),) * draws

    def steady(self, clock: Clock, replay: int) -> bool:
        """Always: within a task nothing changes."""
        return True

    def slots(self, seeds: Tensor, clock: Clock, steps: int, batch: int) -> Tensor:
        """Nowhere, `[steps, K, 0]`."""
        return torch.zeros(steps, len(seeds), 0, dtype=torch.int64, device=seeds.device)

    def draws(
        self, seeds: Tensor, clock: Clock, steps: int, batch: int, sizes: tuple[int, ...]
    ) -> Tensor:
        """Uniform draws without replacement, `[steps, K, sum(sizes)]`."""
        filled = torch.full((steps,), sum(self.kept(clock.counts)), device=seeds.device)
        return without_replacement(seeds, clock.steps, filled, sizes)
