"""What is random in the coming steps, worked out for many of them at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recollect.core.images import Images
from recollect.core.random import Purpose, bits
from recollect.core.transforms import Transforms
from recollect.memory import ClassRing, Clock, Memory, Rule
from recollect.train.execution import Stacks

__all__ = ["Planner"]

PLANNED = 512


@dataclass(frozen=True)
class Planner:
    """Plans the steps of a fleet: nothing of it depends on the weights.

    `rule` is None for methods without a memory; `noisy` asks for seeds for layers that draw
    random numbers of their own, `luck` for so many random words an example, and `places` for the
    slots, of which the step may choose others. A rule that goes by labels has `met` how many
    examples of every class, `[K, C]`.
    """

    seeds: Tensor
    memory: Memory
    rule: Rule | ClassRing | None
    draws: int
    replay: int
    images: Images | Transforms | None
    noisy: bool
    luck: int
    places: bool = False
    met: Tensor | None = None

    def sizes(self, clock: Clock) -> tuple[int, ...]:
        """How many examples each draw of the next step has."""
        return self.rule.sizes(clock, self.draws, self.replay) if self.rule else ()

    def steps(self, clock: Clock, possible: int) -> int:
        """For how many of the possible steps the draws keep their sizes."""
        return min(possible, PLANNED) if self.steady(clock) else 1

    def steady(self, clock: Clock) -> bool:
        """Whether the draws keep their sizes from now on, in this task."""
        return self.rule is None or self.rule.steady(clock, self.replay)

    def full(self, clock: Clock) -> bool:
        """Whether the next step's draws are as large as they become.

        Where a step has no fixed number of draws, as in GEM, only a step without any counts.
        """
        sizes = self.sizes(clock)
        if not self.draws:
            return not sizes
        return self.steady(clock) and sizes[0] == min(self.replay, self.memory.capacity)

    def plan(
        self,
        clock: Clock,
        steps: int,
        batch: int,
        sizes: tuple[int, ...],
        labels: Tensor | None = None,
    ) -> Stacks:
        """The rows of memory to read and to write, how images are shown, and luck.

        Each is `[steps, K, ...]`, and so are the labels, for rules that go by them.
        """
        device = self.seeds.device
        nothing = torch.zeros(steps, len(self.seeds), 0, dtype=torch.int64, device=device)
        plan = {"read": nothing, "write": nothing}
        if self.rule is not None:
            if isinstance(self.rule, ClassRing):
                assert labels is not None, "the rule goes by labels"
                assert self.met is not None
                drawn, counts = self.rule.draws(self.seeds, clock, labels, self.met, sizes)
                slots = self.rule.slots(labels, self.met)
                plan["counts"] = counts
            else:
                drawn = self.rule.draws(self.seeds, clock, steps, batch, sizes)
                slots = self.rule.slots(self.seeds, clock, steps, batch)
            plan |= {"read": self.memory.rows(drawn), "write": self.memory.rows(slots)}
            if self.places:
                plan["slots"] = slots.contiguous()
        if self.images is not None:
            rows = batch + sum(sizes)
            plan["views"] = self.images.views(self.seeds, clock.steps, steps, rows)
        when = torch.arange(clock.steps, clock.steps + steps, device=device)
        if self.noisy:
            plan["noise"] = bits(self.seeds, Purpose.NOISE, when[:, None])
        if self.luck:
            place = torch.arange(batch * self.luck, device=device)
            words = bits(self.seeds[:, None], Purpose.LUCK, when[:, None, None], place)
            plan["luck"] = words.view(steps, -1, batch, self.luck)
        return plan

    def note(self, labels: Tensor) -> None:
        """Steps with these labels `[steps, K, batch]` were taken."""
        if self.met is not None:
            labels = labels.transpose(0, 1).flatten(1)
            self.met.scatter_add_(1, labels, torch.ones_like(labels))
