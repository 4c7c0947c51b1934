"""Where a fleet stands in its stream."""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["Clock"]


@dataclass(frozen=True)
class Clock:
    """How many steps were taken and how many examples seen, in all and in each finished task.

    Every run of a fleet has the same clock: how much arrives never depends on the seed. A task
    of `counts` examples is seen as many times over as it has epochs: that is `past`.

    >>> clock = Clock(tasks=2).after(steps=6, batch=10).next_task(count=30).after(1, batch=10)
    >>> clock.task, clock.seen, clock.seen_now, clock.past, clock.counts
    (1, 70, 10, (60,), (30,))
    """

    steps: int = 0
    seen: int = 0
    past: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()
    tasks: int = 1

    @property
    def task(self) -> int:
        """The number of the task that is going on, from 0."""
        return len(self.past)

    @property
    def seen_now(self) -> int:
        """How many examples of this task were seen."""
        return self.seen - sum(self.past)

    def after(self, steps: int, batch: int) -> Clock:
        """The clock after so many steps."""
        return replace(self, steps=self.steps + steps, seen=self.seen + steps * batch)

    def next_task(self, count: int) -> Clock:
        """The clock when this task, of so many examples, is over."""
        return replace(self, past=(*self.past, self.seen_now), counts=(*self.counts, count))
