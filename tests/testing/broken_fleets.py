"""Methods that do not fit in fleets, in files, or on streams that they say they fit on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from tests.testing.broken import Plain, Replay, breaks
from torch import Tensor

from recollect import Step
from recollect.memory import Clock, Reservoir, Rule, TaskRing
from recollect.methods import About, Boundary


@breaks("company-broadcast", "a run of a fleet is not the run alone after step 1")
@breaks("company-vmap", "(vmap network)")
@dataclass(frozen=True)
class Sociable(Plain):
    """Learns faster in the company of those who learn."""

    def loss(self, step: Step) -> Tensor:
        mine = super().loss(step)
        return mine * mine.detach().mean()


@breaks("company-loop", "(loop network)")
@dataclass(frozen=True)
class Equal(Plain):
    """Lets all runs have the same weights in the end."""

    needs_boundaries: ClassVar[bool] = True

    def end_task(self, boundary: Boundary) -> None:
        for tensor in boundary.weights:
            tensor.copy_(tensor.mean(0, keepdim=True).expand_as(tensor))


@breaks("strategies", "networks called by vmap end otherwise than as one call")
@dataclass(frozen=True)
class Counting(Plain):
    """Learns faster, the more runs there are."""

    def loss(self, step: Step) -> Tensor:
        return super().loss(step) * len(step.y)


@dataclass(frozen=True)
class Hasty(Reservoir):
    """Plans otherwise if it plans two steps."""

    def slots(self, seeds: Tensor, clock: Clock, steps: int, batch: int) -> Tensor:
        found = super().slots(seeds, clock, steps, batch)
        return found.flip(2) if steps == 2 else found


@breaks("stretches", "a long stretch does not lead where many short ones do")
@dataclass(frozen=True)
class Impatient(Replay):
    """Has a rule that plans otherwise if it plans two steps."""

    def rule(self, capacity: int) -> Rule:
        return Hasty(capacity)


@breaks("recorded", "a recorded step is another one")
@dataclass(frozen=True)
class Touchy(Plain):
    """Learns by where its labels lie."""

    def loss(self, step: Step) -> Tensor:
        return super().loss(step) / (1 + step.y.storage_offset())


@breaks("restored", "saved and restored after step 4, it ends otherwise")
@breaks("learner", "loaded from a file, a learner has the loss")
@dataclass(frozen=True)
class Absent(Plain):
    """Counts its steps where nobody saves them."""

    counts: ClassVar[dict[int, list[Any]]] = {}

    def own(self, about: About) -> dict[str, Tensor]:
        return {"nothing": torch.zeros(about.runs)}

    def loss(self, step: Step) -> Tensor:
        mine = self.counts.setdefault(id(step.own), [step.own, 0])
        mine[1] += 1
        return super().loss(step) / float(mine[1])


@breaks("boundaries", "without boundaries its memory stays empty")
@dataclass(frozen=True)
class Waiting(Replay):
    """Replays what it was never told is past."""

    def rule(self, capacity: int) -> Rule:
        return TaskRing(capacity)


@breaks("boundaries", "it declares `needs_boundaries`, and goes the same way without")
@dataclass(frozen=True)
class Anxious(Plain):
    """Wants to be told what it does not use."""

    needs_boundaries: ClassVar[bool] = True


@breaks("revisits", "it meets examples again (looks at them when a task begins or ends)")
@dataclass(frozen=True)
class Nostalgic(Plain):
    """Looks at a task once more when it is over."""

    needs_boundaries: ClassVar[bool] = True

    def end_task(self, boundary: Boundary) -> None:
        x, _ = boundary.examples(boundary.for_all(torch.arange(2)))
        factor = 1 + x.flatten(1).double().mean(1) / 1000
        for tensor in boundary.weights:
            tensor.mul_(factor.view(-1, *[1] * (tensor.dim() - 1)))


@breaks("revisits", "it declares `revisits`, and meets no example again")
@dataclass(frozen=True)
class Modest(Plain):
    """Is better than it says."""

    revisits: ClassVar[bool] = True


@breaks("task", "answers alike whichever task it is told")
@dataclass(frozen=True)
class Needy(Plain):
    """Wants to be told the task, and does not use it."""

    needs_boundaries: ClassVar[bool] = True
    needs_task: ClassVar[bool] = True


@breaks("tasks", "bytes more: declare `grows`")
@dataclass(frozen=True)
class Growing(Plain):
    """Has room for every task."""

    def own(self, about: About) -> dict[str, Tensor]:
        return {"task": torch.zeros(about.runs, about.tasks)}


@breaks("tasks", "bytes more: declare `grows`")
@dataclass(frozen=True)
class GrowingInSecret(Plain):
    """Keeps the weights of every task."""

    needs_boundaries: ClassVar[bool] = True
    past: ClassVar[list[Any]] = []

    def end_task(self, boundary: Boundary) -> None:
        self.past.append(boundary.weights.snapshot())


@breaks("tasks", "it declares `grows`, and holds no more with more tasks")
@dataclass(frozen=True)
class Small(Plain):
    """Is smaller than it says."""

    grows: ClassVar[bool] = True
