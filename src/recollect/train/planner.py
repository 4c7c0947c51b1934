"""What is random in the coming steps, computed for many of them at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recollect.core.images import Images
from recollect.core.random import Purpose, bits
from recollect.core.transforms import Transforms
from recollect.memory import Arrivals, Clock, Memory, Policy
from recollect.memory.holes import drawn_around, filled_slots, sizes_around, slots_with_holes
from recollect.train.execution import Sizes, Stacks
from recollect.train.optimisation import RateSchedule

__all__ = ["Planner", "by_step", "no_counts"]

PLANNED = 512
STEPS_AHEAD = 64
EXAMPLES_AHEAD = 4096


@dataclass
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
    rates: RateSchedule | None = None
    _ahead: tuple[Clock, int, Sizes, Stacks] | None = None

    def sizes(self, clock: Clock) -> Sizes:
        """How many examples each draw of the next step has."""
        if self.policy is None:
            return ()
        sizes = self.policy.sizes(clock, self.draws, self.replay)
        return sizes_around(self.policy, clock, sizes) if clock.holes else sizes

    def steps(self, clock: Clock, possible: int) -> int:
        """For how many of the possible steps the draws keep their sizes."""
        return min(possible, PLANNED) if self._steady(clock) else 1

    def full(self, clock: Clock) -> bool:
        """Whether the next step has no draws, or all of them in the size that was asked for."""
        sizes = self.sizes(clock)
        whole = min(self.replay, self.memory.capacity)
        return not sizes or (self._steady(clock) and len(sizes) == self.draws and sizes[0] == whole)

    def plan(
        self, clock: Clock, steps: int, batch: int, sizes: Sizes, labels: Tensor | None = None
    ) -> Stacks:
        """What the coming steps read and write, and their random numbers, each `[steps, K, ...]`.

        `read` and `write` are rows of memory, `slots` are those of `write` within a run, `valid`
        tells which draws are real, `views` how images are augmented, `noise` seeds random layers
        and `key` the random numbers of the method.

        Where one step is asked for, many are planned, and the next ones handed out when they come.
        A plan depends on the clock and on the sizes of batch and draws alone (and on labels, for
        some policies), so it is thrown away when something else arrives. Where only slots depend
        on labels, they are added step by step.
        """
        if clock.holes:
            return self._plan(clock, steps, batch, sizes, labels)
        by_label = self.counts is not None
        if steps > 1 or (by_label and self._draws_use_labels) or not self._steady(clock):
            return self._plan(clock, steps, batch, sizes, labels)
        if self._ahead is None or not _covers(*self._ahead, clock, batch, sizes):
            count = max(1, min(STEPS_AHEAD, EXAMPLES_AHEAD // batch))
            self._ahead = clock, batch, sizes, self._plan(clock, count, batch, sizes)
        first, _, _, plan = self._ahead
        number = clock.steps - first.steps
        found = {name: stack[number : number + 1] for name, stack in plan.items()}
        return found | self._stored(self._arrivals(clock, 1, batch, labels)) if by_label else found

    def filled(self, clock: Clock) -> Tensor:
        """The slots of a single run that have an example, in ascending order, `[n]`."""
        if self.policy is None:
            return torch.zeros(0, dtype=torch.int64)
        label = None if self.counts is None else torch.zeros_like(self.seeds).view(1, 1, 1)
        return filled_slots(self.policy, self._arrivals(clock, 1, 1, label))

    def begin_schedule(self, first: int, total: int) -> None:
        """Let the schedule of the learning rate, if there is one, run over so many steps."""
        if self.rates is not None and (first, total) != (self.rates.first, self.rates.total):
            self.rates.begin(first, total)
            self._ahead = None

    def count(self, labels: Tensor) -> None:
        """Count the labels `[steps, K, batch]` of steps that were taken."""
        if self.counts is not None:
            labels = labels.transpose(0, 1).flatten(1)
            self.counts.scatter_add_(1, labels, torch.ones_like(labels))

    @property
    def _draws_use_labels(self) -> bool:
        """Whether the policy's draws depend on labels, or its slots alone."""
        return bool(getattr(self.policy, "draws_use_labels", True))

    def _arrivals(self, clock: Clock, steps: int, batch: int, labels: Tensor | None) -> Arrivals:
        known = stored = None
        if self.counts is not None and labels is not None:
            known, stored = (labels, self.counts), self.memory.fields().y
        return Arrivals(self.seeds, clock, steps, batch, known, stored)

    def _stored(self, arrivals: Arrivals) -> Stacks:
        """Where the examples that arrive are stored."""
        assert self.policy is not None
        if arrivals.clock.holes:
            slots = slots_with_holes(self.policy, arrivals)
        else:
            slots = self.policy.slots(arrivals)
        return {"write": self.memory.rows(slots), "slots": slots.contiguous()}

    def _steady(self, clock: Clock) -> bool:
        """Whether the draws keep their sizes from now on, in this task."""
        if self.policy is None:
            return True
        return not clock.holes and self.policy.steady(clock, self.replay)

    def _plan(
        self, clock: Clock, steps: int, batch: int, sizes: Sizes, labels: Tensor | None = None
    ) -> Stacks:
        device = self.seeds.device
        none = torch.zeros(steps, len(self.seeds), 0, dtype=torch.int64, device=device)
        plan = {"read": none, "write": none, "slots": none}
        if self.policy is not None:
            arrivals = self._arrivals(clock, steps, batch, labels)
            if clock.holes:
                drawn = drawn_around(self.policy, arrivals, sizes)
            else:
                drawn = self.policy.draws(arrivals, sizes)
            plan["read"] = self.memory.rows(drawn.slots)
            if self.counts is None or labels is not None:
                plan |= self._stored(arrivals)
            if drawn.valid is not None:
                plan["valid"] = drawn.valid
        if self.images is not None:
            rows = batch + sum(sizes)
            plan["views"] = self.images.views(self.seeds, clock.steps, steps, rows)
        when = torch.arange(clock.steps, clock.steps + steps, device=device)[:, None]
        if self.noisy:
            plan["noise"] = bits(self.seeds, Purpose.NOISE, when)
        plan["key"] = bits(self.seeds, Purpose.RANDOM, when)
        if self.rates is not None:
            plan["factor"] = self.rates.factors(clock.steps, steps)
        return plan


def _covers(
    first: Clock, size: int, drawn: Sizes, plan: Stacks, clock: Clock, batch: int, sizes: Sizes
) -> bool:
    number = clock.steps - first.steps
    return (
        0 <= number < len(plan["key"])
        and (batch, sizes) == (size, drawn)
        and clock == first.after(number, batch)
    )


def no_counts(
    policy: Policy | None, runs: int, classes: int, device: torch.device
) -> Tensor | None:
    """How many examples of every class came before the first, `[K, C]`, if a policy asks."""
    if policy is None or not policy.uses_labels:
        return None
    return torch.zeros(runs, classes, dtype=torch.int64, device=device)


def by_step(stretch: Tensor, steps: int) -> Tensor:
    """The batches of a stretch `[K, steps * B, ...]`, each contiguous: `[steps, K, B, ...]`."""
    if steps == 1:
        return stretch.unsqueeze(0).contiguous()
    runs, _, *shape = stretch.shape
    return stretch.reshape(runs, steps, -1, *shape).transpose(0, 1).contiguous()
