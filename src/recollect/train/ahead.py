"""Plans for steps that are taken one at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch import Tensor

from recollect.memory import Clock
from recollect.train.execution import Stacks
from recollect.train.planner import Planner

__all__ = ["Ahead"]

STEPS = 64
EXAMPLES = 4096


@final
class Ahead:
    """Plans many steps although one is asked for, and hands the next ones out when they come.

    What a planner says depends on the clock and on the sizes of batch and draws alone, so a step
    that was planned too early is thrown away when something else arrives.
    """

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._planned: _Planned | None = None

    def plan(
        self, clock: Clock, steps: int, batch: int, sizes: tuple[int, ...], labels: Tensor
    ) -> Stacks:
        """What the planner says of the coming steps."""
        planner, policy = self._planner, self._planner.policy
        by_label = policy is not None and policy.uses_labels
        if steps > 1 or by_label or not planner.steady(clock):
            return planner.plan(clock, steps, batch, sizes, labels)
        planned = self._planned
        if planned is None or not planned.covers(clock, batch, sizes):
            count = max(1, min(STEPS, EXAMPLES // batch))
            plan = planner.plan(clock, count, batch, sizes)
            planned = self._planned = _Planned(clock, batch, sizes, count, plan)
        return planned.step(clock)


@dataclass(frozen=True)
class _Planned:
    first: Clock
    batch: int
    sizes: tuple[int, ...]
    count: int
    plan: Stacks

    def covers(self, clock: Clock, batch: int, sizes: tuple[int, ...]) -> bool:
        number = clock.steps - self.first.steps
        return (
            0 <= number < self.count
            and (batch, sizes) == (self.batch, self.sizes)
            and clock == self.first.after(number, batch)
        )

    def step(self, clock: Clock) -> Stacks:
        number = clock.steps - self.first.steps
        return {name: stack[number : number + 1] for name, stack in self.plan.items()}
