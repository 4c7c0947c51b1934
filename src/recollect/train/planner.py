"""Plan the memory accesses and random numbers of many training steps at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from recollect.core.images import Images
from recollect.core.random import Purpose, bits, coming_bits
from recollect.core.transforms import Transforms
from recollect.memory import Arrivals, Clock, Memory, Policy
from recollect.memory.holes import drawn_around, filled_slots, sizes_around, slots_with_holes
from recollect.train.execution import Sizes, Stacks
from recollect.train.optimisation import RateSchedule

PLANNED = 512
STEPS_AHEAD = 64
EXAMPLES_AHEAD = 4096


class Ahead(NamedTuple):
    """The plans of the steps from the clock `first` on, for batches of one size."""

    first: Clock
    batch: int
    sizes: Sizes
    full: bool
    plans: list[Stacks]

    def covers(self, clock: Clock, batch: int) -> bool:
        """Whether there is a plan for the step at this clock."""
        number = clock.steps - self.first.steps
        return (
            0 <= number < len(self.plans)
            and batch == self.batch
            and clock.seen == self.first.seen + number * batch
            and clock.past == self.first.past
            and not clock.holes
        )


@dataclass
class Planner:
    """Plans the steps of a fleet; a plan does not depend on the weights.

    `policy` is None for methods without a memory. `noisy` means that layers draw random numbers, so
    they need seeds. For a policy that uses labels, `counts` is the number of examples of every
    class so far, `[K, C]`.

    Plans are computed on the device of the `seeds`. On a GPU a plan is many tiny kernels, so a
    single step is planned faster on the CPU. The numbers are the same.
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
    _ahead: Ahead | None = None

    def sizes(self, clock: Clock) -> Sizes:
        """Return the number of examples in each draw of the next step."""
        if self.policy is None:
            return ()
        sizes = self.policy.sizes(clock, self.draws, self.replay)
        return sizes_around(self.policy, clock, sizes) if clock.holes else sizes

    def steps(self, clock: Clock, possible: int) -> int:
        """Return the number of steps, at most `possible`, that can be planned together."""
        return min(possible, PLANNED) if self._steady(clock) else 1

    def full(self, clock: Clock, sizes: Sizes) -> bool:
        """Whether the next step has no draws, or all of its draws have their full size."""
        whole = min(self.replay, self.memory.capacity)
        return not sizes or (self._steady(clock) and len(sizes) == self.draws and sizes[0] == whole)

    def plan(
        self, clock: Clock, steps: int, batch: int, sizes: Sizes, labels: Tensor | None = None
    ) -> Stacks:
        """Plan the memory rows and random numbers of the next steps, each `[steps, K, ...]`.

        `read` and `write` are rows of the memory, `slots` the slots of `write` within a run,
        `valid` marks real draws, `views` are the image augmentations, `noise` seeds random layers,
        `key` the random numbers of the method, and `factor` scales the learning rate.

        If one step is requested, it is planned as `next` does.
        """
        if steps > 1:
            return self._plan(clock, steps, batch, sizes, labels)
        found, *_ = self.next(clock, batch, labels)
        return {name: tensor.unsqueeze(0) for name, tensor in found.items()}

    def next(
        self, clock: Clock, batch: int, labels: Tensor | None = None
    ) -> tuple[Stacks, Sizes, bool]:
        """Plan the next step as `plan` does, each tensor `[K, ...]`; labels are `[1, K, batch]`.

        Also returns the sizes of its draws, and whether they are `full`. Many steps are planned and
        cached for the next calls. A plan depends only on the clock and the sizes of batch and draws
        (and, for some policies, on labels), so the cache is discarded when these differ. If only
        slots depend on labels, they are added step by step.
        """
        ahead = self._ahead
        if ahead is None or not ahead.covers(clock, batch):
            sizes = self.sizes(clock)
            full = self.full(clock, sizes)
            drawn_by_label = self.counts is not None and getattr(
                self.policy, "draws_use_labels", True
            )
            if drawn_by_label or not self._steady(clock):
                return _apart(self._plan(clock, 1, batch, sizes, labels))[0], sizes, full
            count = max(1, min(STEPS_AHEAD, EXAMPLES_AHEAD // batch))
            plans = _apart(self._plan(clock, count, batch, sizes))
            ahead = self._ahead = Ahead(clock, batch, sizes, full, plans)
        found = ahead.plans[clock.steps - ahead.first.steps]
        if self.counts is not None:
            found = found | _apart(self._stored(self._arrivals(clock, 1, batch, labels)))[0]
        return found, ahead.sizes, ahead.full

    def filled(self, clock: Clock) -> Tensor:
        """Return the filled slots of a fleet of one run, in ascending order, `[n]`."""
        if self.policy is None:
            return torch.zeros(0, dtype=torch.int64)
        label = None if self.counts is None else torch.zeros_like(self.seeds).view(1, 1, 1)
        return filled_slots(self.policy, self._arrivals(clock, 1, 1, label))

    def begin_schedule(self, first: int, total: int) -> None:
        """Start the learning rate schedule, if there is one, at step `first` for `total` steps."""
        if self.rates is not None and (first, total) != (self.rates.first, self.rates.total):
            self.rates.begin(first, total)
            self._ahead = None

    def count(self, labels: Tensor) -> None:
        """Add the labels `[steps, K, batch]` of completed steps to the class counts."""
        if self.counts is not None:
            labels = labels.transpose(0, 1).flatten(1).to(self.counts.device)
            self.counts.scatter_add_(1, labels, torch.ones_like(labels))

    def _arrivals(self, clock: Clock, steps: int, batch: int, labels: Tensor | None) -> Arrivals:
        known = stored = None
        if self.counts is not None and labels is not None:
            where = self.seeds.device
            known = labels.to(where), self.counts.to(where)
            stored = self.memory.fields().y.to(where)
        return Arrivals(self.seeds, clock, steps, batch, known, stored)

    def _stored(self, arrivals: Arrivals) -> Stacks:
        """Plan where the arriving examples are stored."""
        assert self.policy is not None
        if arrivals.clock.holes:
            slots = slots_with_holes(self.policy, arrivals)
        else:
            slots = self.policy.slots(arrivals)
        return {"write": self.memory.rows(slots), "slots": slots.contiguous()}

    def _steady(self, clock: Clock) -> bool:
        """Whether the sizes of the draws stay constant for the rest of the task."""
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
            words = coming_bits(self.seeds, Purpose.VIEW, clock.steps, steps, rows)
            plan["views"] = self.images.view_of(words)
        when = torch.arange(clock.steps, clock.steps + steps, device=device)[:, None]
        if self.noisy:
            plan["noise"] = bits(self.seeds, Purpose.NOISE, when)
        plan["key"] = bits(self.seeds, Purpose.RANDOM, when)
        if self.rates is not None:
            plan["factor"] = self.rates.factors(clock.steps, steps)
        return plan


def _apart(plan: Stacks) -> list[Stacks]:
    """Split a plan into plans of single steps, each `[K, ...]`."""
    parts = (stack.unbind() for stack in plan.values())
    return [dict(zip(plan, each, strict=True)) for each in zip(*parts, strict=True)]


def by_step(stretch: Tensor, steps: int) -> Tensor:
    """Split examples `[K, steps * B, ...]` into contiguous batches `[steps, K, B, ...]`."""
    if steps == 1:
        return stretch.unsqueeze(0).contiguous()
    runs, _, *shape = stretch.shape
    return stretch.reshape(runs, steps, -1, *shape).transpose(0, 1).contiguous()
