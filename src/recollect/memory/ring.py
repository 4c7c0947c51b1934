"""Ring memories: an equal share for every task, in which the newest examples replace the oldest."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from recollect.memory.clock import Clock
from recollect.memory.reservoir import without_replacement
from recollect.memory.rule import later_stays

__all__ = ["TaskRing"]


@dataclass(frozen=True)
class TaskRing:
    """The last examples of every task (Lopez-Paz & Ranzato, 2017).

    Each of the stream's tasks has the same share of the memory. Replays come from the tasks before
    this one: a draw is uniform over all of them or, with `whole`, there is one draw for each task
    and it is all that is kept of that task.

    >>> rule, clock = TaskRing(capacity=6), Clock(seen=5, past=(4,), tasks=3)
    >>> rule.slots(torch.tensor([0]), clock, steps=1, batch=3)
    tensor([[[6, 2, 3]]])
    >>> rule.sizes(clock, draws=1, replay=9), rule.steady(clock, replay=9)
    ((2,), True)
    """

    capacity: int
    whole: bool = False

    def sizes(self, clock: Clock, draws: int, replay: int) -> tuple[int, ...]:
        """As many as are asked for, or all there are; with `whole`, all of every earlier task."""
        kept = self._kept(clock)
        if self.whole:
            return tuple(kept)
        return (min(replay, sum(kept)),) * draws

    def steady(self, clock: Clock, replay: int) -> bool:
        """Always: earlier tasks no longer change."""
        return True

    def slots(self, seeds: Tensor, clock: Clock, steps: int, batch: int) -> Tensor:
        """The next places of this task's ring, the same for all runs, `[steps, K, batch]`."""
        share = self._share(clock)
        first = clock.seen_now
        number = torch.arange(first, first + steps * batch, device=seeds.device)
        slot = clock.task * share + number % share if share else torch.full_like(number, 0)
        slot = slot.view(steps, 1, batch).expand(-1, len(seeds), -1)
        return later_stays(slot, self.capacity) if share else torch.full_like(slot, self.capacity)

    def draws(
        self, seeds: Tensor, clock: Clock, steps: int, batch: int, sizes: tuple[int, ...]
    ) -> Tensor:
        """Which slots of earlier tasks are replayed, `[steps, K, sum(sizes)]`."""
        kept = self._kept(clock)
        total = sum(kept)
        if self.whole:
            places = torch.arange(total, device=seeds.device).expand(steps, len(seeds), -1)
        else:
            filled = torch.full((steps,), total, device=seeds.device)
            places = without_replacement(seeds, clock.steps, filled, sizes)
        share = self._share(clock)
        shifts = [task * share - start for task, start in enumerate([0, *accumulate(kept)][:-1])]
        ends = torch.tensor(list(accumulate(kept)), device=seeds.device)
        task = torch.bucketize(places.contiguous(), ends, right=True)
        return places + torch.tensor([*shifts, 0], device=seeds.device)[task]

    def _share(self, clock: Clock) -> int:
        return self.capacity // clock.tasks

    def _kept(self, clock: Clock) -> list[int]:
        """How many examples of every earlier task are there."""
        return [min(seen, self._share(clock)) for seen in clock.past]
