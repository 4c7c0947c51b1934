"""What a memory rule plans, for three runs and three tasks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import torch
from torch import Tensor

from recollect.core.random import Purpose, below, bits
from recollect.memory import ClassRing, Clock, Rule

__all__ = ["DRAWS", "REPLAY", "SEEDS", "Plan", "Watched", "clocks"]

CLASSES = 3
SEEDS = torch.tensor([3, 2**40, 0])
TASKS = (((3, 4), (1, 3)), ((2, 2), (2, 7)), ((3, 4), (1, 1)))  # (steps, batch), task by task
DRAWS, REPLAY = 2, 5


Stretch = tuple[Clock, int, int]  # where it begins, and its steps and batch size


class Plan(NamedTuple):
    """Where examples go and what is drawn in some steps, and which of the draws count."""

    slots: Tensor
    drawn: Tensor
    counts: Tensor


@final
@dataclass(frozen=True)
class Watched:
    """A rule and what it plans; one that goes by labels is given such as go by seeds and clock."""

    rule: Rule | ClassRing

    def plan(self, seeds: Tensor, clock: Clock, steps: int, batch: int) -> Plan:
        """What the rule says of the coming steps."""
        sizes = self.rule.sizes(clock, DRAWS, REPLAY)
        if isinstance(self.rule, ClassRing):
            now, before = _labels(seeds, clock, steps, batch)
            drawn, counts = self.rule.draws(seeds, clock, now, before, sizes)
            return Plan(self.rule.slots(now, before), drawn, counts)
        drawn = self.rule.draws(seeds, clock, steps, batch, sizes)
        slots = self.rule.slots(seeds, clock, steps, batch)
        return Plan(slots, drawn, torch.ones_like(drawn, dtype=torch.bool))

    @cached_property
    def single_steps(self) -> list[tuple[Clock, Plan]]:
        """Every step of the three tasks, planned on its own."""
        return _single_steps(self)

    @cached_property
    def stretches(self) -> list[tuple[Stretch, Plan]]:
        """Every stretch of the three tasks, planned at once."""
        return [(when, self.plan(SEEDS, *when)) for when in clocks()]


def _labels(seeds: Tensor, clock: Clock, steps: int, batch: int) -> tuple[Tensor, Tensor]:
    """The labels of the coming steps, `[steps, K, batch]`, and how many were met of each class."""
    number = torch.arange(clock.seen + steps * batch)
    labels = below(bits(seeds[:, None], Purpose.GROUP, number), CLASSES)  # [K, n]
    before = torch.stack([row.bincount(minlength=CLASSES) for row in labels[:, : clock.seen]])
    now = labels[:, clock.seen :].view(len(seeds), steps, batch).transpose(0, 1)
    return now, before


def clocks() -> Iterator[Stretch]:
    """Three tasks, in stretches of so many steps and batches of several sizes."""
    clock = Clock(tasks=len(TASKS))
    for stretches in TASKS:
        for steps, batch in stretches:
            yield clock, steps, batch
            clock = clock.after(steps, batch)
        clock = clock.next_task(clock.seen_now)


def _single_steps(watched: Watched) -> list[tuple[Clock, Plan]]:
    whens = [
        (clock.after(s, batch), batch) for clock, steps, batch in clocks() for s in range(steps)
    ]
    return [(clock, watched.plan(SEEDS, clock, 1, batch)) for clock, batch in whens]
