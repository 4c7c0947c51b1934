"""Memories with an equal share for every task, filled as a ring buffer or at task end."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

import torch
from torch import Tensor

from recollect.memory.policy import Arrivals, Clock, Drawn, last_in_slot
from recollect.memory.reservoir import without_replacement


@dataclass(frozen=True)
class TaskRing:
    """A ring buffer for every task, with its most recent examples (Lopez-Paz & Ranzato, 2017).

    Every task of the stream has an equal share of the memory. Replays come from earlier tasks: a
    draw is uniform over all of them or, with `whole`, there is one draw per task with all of its
    stored examples.

    >>> policy, clock = TaskRing(capacity=6), Clock(seen=5, past=(4,), tasks=3)
    >>> policy.slots(Arrivals(torch.tensor([0]), clock, steps=1, batch=3))
    tensor([[[6, 2, 3]]])
    >>> policy.sizes(clock, draws=1, replay=9), policy.steady(clock, replay=9)
    ((2,), True)
    """

    capacity: int
    whole: bool = False
    uses_labels: ClassVar[bool] = False

    def sizes(self, clock: Clock, draws: int, replay: int) -> tuple[int, ...]:
        """Return `replay` or the number stored per draw; with `whole`, the size of each task."""
        stored = self._stored(clock)
        return tuple(stored) if self.whole else (min(replay, sum(stored)),) * draws

    def steady(self, clock: Clock, replay: int) -> bool:
        """Always true, since earlier tasks do not change."""
        return True

    def slots(self, arrivals: Arrivals) -> Tensor:
        """Assign the next slots of this task's ring, the same for all runs, `[steps, K, batch]`."""
        clock = arrivals.clock
        share = self._share(clock)
        number = (arrivals.numbers - sum(clock.past))[:, None].expand(-1, arrivals.runs, -1)
        if not share:
            return torch.full_like(number, self.capacity)
        return last_in_slot(clock.task * share + number % share, self.capacity)

    def draws(self, arrivals: Arrivals, sizes: tuple[int, ...]) -> Drawn:
        """Draw the slots of earlier tasks to replay, `[steps, K, sum(sizes)]`."""
        stored, device = self._stored(arrivals.clock), arrivals.seeds.device
        total = sum(stored)
        if self.whole:
            index = torch.arange(total, device=device).expand(arrivals.steps, arrivals.runs, -1)
        else:
            filled = torch.full((arrivals.steps,), total, device=device)
            index = without_replacement(arrivals, filled, sizes).slots
        share = self._share(arrivals.clock)
        shifts = [task * share - start for task, start in enumerate([0, *accumulate(stored)][:-1])]
        ends = torch.tensor(list(accumulate(stored)), device=device)
        task = torch.bucketize(index.contiguous(), ends, right=True)
        return Drawn(index + torch.tensor([*shifts, 0], device=device)[task])

    def _share(self, clock: Clock) -> int:
        return self.capacity // clock.tasks

    def _stored(self, clock: Clock) -> list[int]:
        return [min(seen, self._share(clock)) for seen in clock.past]


@dataclass(frozen=True)
class TaskShares:
    """Equal shares of the memory for finished tasks, filled by the method at task end.

    Incoming examples are not stored. After t tasks, each task has 1/t of the memory, one after the
    other. Draws are uniform over all stored examples.

    >>> policy = TaskShares(capacity=10)
    >>> policy.stored((100, 100, 2)), policy.sizes(Clock(counts=(100, 100, 2)), 1, replay=50)
    ([3, 3, 2], (8,))
    """

    capacity: int
    uses_labels: ClassVar[bool] = False

    def stored(self, counts: tuple[int, ...]) -> list[int]:
        """The number of stored examples of each task, given their numbers of examples."""
        return [min(count, self.capacity // len(counts)) for count in counts]

    def staying(self, counts: tuple[int, ...], new: int) -> Tensor:
        """The slots `[n]` of earlier tasks' examples that remain stored with a task of `new`."""
        before, after = self.stored(counts), self.stored((*counts, new))
        starts = [0, *accumulate(before)]
        kept = [torch.arange(start, start + n) for start, n in zip(starts, after, strict=True)]
        return torch.cat([torch.zeros(0, dtype=torch.int64), *kept[:-1]])

    def sizes(self, clock: Clock, draws: int, replay: int) -> tuple[int, ...]:
        """Return `replay` for each draw, or the number of stored examples if that is smaller."""
        return (min(replay, sum(self.stored(clock.counts))),) * draws

    def steady(self, clock: Clock, replay: int) -> bool:
        """Always true, since the memory does not change within a task."""
        return True

    def slots(self, arrivals: Arrivals) -> Tensor:
        """Return no slots, `[steps, K, 0]`."""
        return arrivals.seeds.new_zeros(arrivals.steps, arrivals.runs, 0)

    def draws(self, arrivals: Arrivals, sizes: tuple[int, ...]) -> Drawn:
        """Draw slots uniformly without replacement, `[steps, K, sum(sizes)]`."""
        total = sum(self.stored(arrivals.clock.counts))
        filled = torch.full((arrivals.steps,), total, device=arrivals.seeds.device)
        return without_replacement(arrivals, filled, sizes)
