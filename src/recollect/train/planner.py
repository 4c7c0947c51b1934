"""What is random in the coming steps, computed for many of them at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recollect.core.images import Images
from recollect.core.random import Purpose, bits
from recollect.core.transforms import Transforms
from recollect.memory import Arrivals, Clock, Memory, Policy
from recollect.train.execution import Stacks

__all__ = ["Planner"]

PLANNED = 512


@dataclass(frozen=True)
class Planner:
    """Plans the steps of a fleet: nothing of it depends on the weights.

    `policy` is None for methods without a memory; `noisy` asks for seeds for layers that draw
    random numbers of their own. For a policy that uses labels, `counts` says how many examples of
    every class came so far, `[K, C]`.
    """

    seeds: Tensor
    memory: Memory
    policy: Policy | None
    draws: int
    replay: int
    images: Images | Transforms | None
    noisy: bool
    counts: Tensor | None = None

    def sizes(self, clock: Clock) -> tuple[int, ...]:
        """How many examples each draw of the next step has."""
        return self.policy.sizes(clock, self.draws, self.replay) if self.policy else ()

    def steps(self, clock: Clock, possible: int) -> int:
        """For how many of the possible steps the draws keep their sizes."""
        return min(possible, PLANNED) if self.steady(clock) else 1

    def steady(self, clock: Clock) -> bool:
        """Whether the draws keep their sizes from now on, in this task."""
        return self.policy is None or self.policy.steady(clock, self.replay)

    def full(self, clock: Clock) -> bool:
        """Whether the next step has no draws, or all of them in the size that was asked for."""
        sizes = self.sizes(clock)
        whole = min(self.replay, self.memory.capacity)
        return not sizes or (self.steady(clock) and len(sizes) == self.draws and sizes[0] == whole)

    def plan(
        self,
        clock: Clock,
        steps: int,
        batch: int,
        sizes: tuple[int, ...],
        labels: Tensor | None = None,
    ) -> Stacks:
        """What the coming steps read and write, and their random numbers, each `[steps, K, ...]`.

        `read` and `write` are rows of memory, `slots` are those of `write` within a run, `valid`
        tells which draws are real, `views` how images are augmented, `noise` seeds random layers
        and `key` the random numbers of the method.
        """
        device = self.seeds.device
        none = torch.zeros(steps, len(self.seeds), 0, dtype=torch.int64, device=device)
        plan = {"read": none, "write": none, "slots": none}
        if self.policy is not None:
            known = None
            if self.counts is not None and labels is not None:
                known = labels, self.counts
            arrivals = Arrivals(self.seeds, clock, steps, batch, known)
            drawn, slots = self.policy.draws(arrivals, sizes), self.policy.slots(arrivals)
            plan["read"] = self.memory.rows(drawn.slots)
            plan["write"] = self.memory.rows(slots)
            plan["slots"] = slots.contiguous()
            if drawn.valid is not None:
                plan["valid"] = drawn.valid
        if self.images is not None:
            rows = batch + sum(sizes)
            plan["views"] = self.images.views(self.seeds, clock.steps, steps, rows)
        when = torch.arange(clock.steps, clock.steps + steps, device=device)[:, None]
        if self.noisy:
            plan["noise"] = bits(self.seeds, Purpose.NOISE, when)
        plan["key"] = bits(self.seeds, Purpose.RANDOM, when)
        return plan

    def count(self, labels: Tensor) -> None:
        """Count the labels `[steps, K, batch]` of steps that were taken."""
        if self.counts is not None:
            labels = labels.transpose(0, 1).flatten(1)
            self.counts.scatter_add_(1, labels, torch.ones_like(labels))
