"""Methods that each break one promise, and what the kit must say of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from recollect import ER, Method, Step, cross_entropy
from recollect.memory import Clock, Reservoir, Rule, TaskRing
from recollect.methods import About, Boundary

CASES: list[tuple[str, str, type[Method]]] = []


def breaks(check: str, sentence: str) -> Any:
    """Notes which check a class must fail, and a part of what is to be said of it."""

    def note(kind: type[Method]) -> type[Method]:
        CASES.append((check, sentence, kind))
        return kind

    return note


@dataclass(frozen=True)
class Plain(Method):
    """Keeps every promise."""

    name: ClassVar[str] = "plain"
    title: ClassVar[str] = "Plain"

    def loss(self, step: Step) -> Tensor:
        return cross_entropy(step.net(step.x)[0], step.y)


@dataclass(frozen=True)
class Replay(Plain):
    """Keeps every promise, with a memory."""

    remembers: ClassVar[tuple[str, ...]] = ("x", "y")
    draws: ClassVar[int] = 1

    def loss(self, step: Step) -> Tensor:
        return ER().loss(step)


@breaks("declarations", "it has no title: give it one")
@dataclass(frozen=True)
class Untitled(Plain):
    """Has an empty title."""

    title: ClassVar[str] = ""


@breaks("declarations", "it has no docstring")
@dataclass(frozen=True)
class Unexplained(Plain):
    weight: float = 1.0


@breaks("declarations", "put @dataclass(frozen=True) above the class")
class Undecorated(Plain):
    """Has a hyper-parameter that does not exist."""

    weight: float = 1.0


@breaks("declarations", "hyper-parameter mode is 'fast': it must be a finite number")
@dataclass(frozen=True)
class Worded(Plain):
    """Has a word for a hyper-parameter."""

    mode: str = "fast"


@breaks("declarations", "`shaping` names 'steps', which is no hyper-parameter")
@dataclass(frozen=True)
class Misshapen(Plain):
    """Names a hyper-parameter that it does not have."""

    shaping: ClassVar[tuple[str, ...]] = ("steps",)


@breaks("declarations", "it defines end_task, which is called only if `needs_boundaries`")
@dataclass(frozen=True)
class Deaf(Plain):
    """Waits for something that it will not be told."""

    def end_task(self, boundary: Boundary) -> None:
        raise AssertionError("nobody calls this")


@breaks("declarations", "it defines neither loss nor learn")
@dataclass(frozen=True)
class Idle(Method):
    """Does nothing."""

    name: ClassVar[str] = "idle"
    title: ClassVar[str] = "Idle"


@breaks("declarations", "it declares draws but remembers nothing")
@dataclass(frozen=True)
class Forgetful(Plain):
    """Wants to draw from nothing."""

    draws: ClassVar[int] = 1


@breaks("draws", "it draws more often than it declares: `draws` is 1")
@dataclass(frozen=True)
class Greedy(Replay):
    """Draws twice."""

    def loss(self, step: Step) -> Tensor:
        return ER().loss(step) + ER().loss(step)


@breaks("draws", "it declares 2 draws a step and never looks at number 2")
@dataclass(frozen=True)
class Wasteful(Replay):
    """Draws once."""

    draws: ClassVar[int] = 2


@breaks("fields", "it declares that it remembers 'logits' and does not give it")
@dataclass(frozen=True)
class Withholding(Replay):
    """Does not say which logits to remember."""

    remembers: ClassVar[tuple[str, ...]] = ("x", "y", "logits")


@breaks("fields", "it gives 'logits' to step.remember, where that is not kept")
@dataclass(frozen=True)
class Generous(Replay):
    """Has logits remembered that nobody keeps."""

    def loss(self, step: Step) -> Tensor:
        step.remember(logits=step.net(step.x)[0])
        return ER().loss(step)


@breaks("choice", "it declares luck 2 and never looks at step.luck")
@dataclass(frozen=True)
class Superstitious(Replay):
    """Has luck that it does not use."""

    luck: ClassVar[int] = 2


@breaks("choice", "it looks at step.luck, which is empty")
@dataclass(frozen=True)
class Hopeful(Replay):
    """Trusts in luck that it did not ask for."""

    def loss(self, step: Step) -> Tensor:
        return ER().loss(step) + 0 * step.luck.sum()


@breaks("choice", "it calls step.place, which does nothing unless `places`")
@dataclass(frozen=True)
class Tidy(Replay):
    """Puts examples in places, and nobody listens."""

    def loss(self, step: Step) -> Tensor:
        step.place(step.slots)
        return ER().loss(step)


@breaks("finite", "its loss has the shape [] for 3 runs: return one value per run")
@dataclass(frozen=True)
class Averaging(Plain):
    """Has one loss for all."""

    def loss(self, step: Step) -> Tensor:
        return super().loss(step).sum()


@breaks("finite", "after step 2, the loss is not finite: look for a logarithm")
@dataclass(frozen=True)
class Bottomless(Replay):
    """Takes the logarithm of nothing, once there is a memory."""

    def loss(self, step: Step) -> Tensor:
        drawn = step.draw().y.shape[1]
        return Plain.loss(self, step) + torch.tensor(1.0 if not drawn else 0.0).log()


@breaks("finite", "no weight has changed")
@dataclass(frozen=True)
class Stubborn(Plain):
    """Has a loss, and does not descend on it."""

    def learn(self, step: Step) -> Tensor:
        return self.loss(step).detach()


@breaks("generator", "it draws from torch's global generator: declare `luck`")
@dataclass(frozen=True)
class Dicing(Plain):
    """Weighs its loss at random."""

    def loss(self, step: Step) -> Tensor:
        return super().loss(step) * torch.rand(len(step.y))


@breaks("generator", "it draws from numpy's global generator")
@dataclass(frozen=True)
class DicingElsewhere(Plain):
    """Weighs its loss at random."""

    def loss(self, step: Step) -> Tensor:
        return super().loss(step) * np.random.rand()


@breaks("generator", "it depends on the state of a global random generator")
@dataclass(frozen=True)
class DicingInSecret(Plain):
    """Puts the generator back, but has looked at it."""

    def loss(self, step: Step) -> Tensor:
        with torch.random.fork_rng(devices=[]):
            return super().loss(step) * torch.rand(len(step.y))


@breaks("seeds", "the same runs once more go otherwise")
@dataclass(frozen=True)
class Ageing(Plain):
    """Learns less and less, also in the next fleet."""

    steps: ClassVar[dict[str, int]] = {"taken": 0}

    def loss(self, step: Step) -> Tensor:
        self.steps["taken"] += 1
        return super().loss(step) / self.steps["taken"]


@breaks("prediction", "a prediction changes the run: own.asked differs by")
@dataclass(frozen=True)
class Vain(Plain):
    """Counts how often it is asked."""

    scores_features: ClassVar[bool] = True

    def own(self, about: About) -> dict[str, Tensor]:
        return {"asked": torch.zeros(about.runs)}

    def scores(self, features: Tensor, logits: Tensor, own: Mapping[str, Tensor]) -> Tensor:
        own["asked"].add_(1)
        return logits


@breaks("bounded", "bytes more: what lasts must have its size from the beginning")
@dataclass(frozen=True)
class Hoarding(Plain):
    """Keeps everything."""

    seen: ClassVar[list[Tensor]] = []

    def loss(self, step: Step) -> Tensor:
        self.seen.append(step.x.clone())
        return super().loss(step)


@breaks("bounded", "its class or instance has a container that grows with every step")
@dataclass(frozen=True)
class Noting(Plain):
    """Notes every step."""

    notes: ClassVar[list[int]] = []

    def loss(self, step: Step) -> Tensor:
        self.notes.append(1)
        return super().loss(step)


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


@breaks("learns", "is the sign of the loss right?")
@dataclass(frozen=True)
class Contrary(Plain):
    """Goes uphill."""

    def loss(self, step: Step) -> Tensor:
        return -super().loss(step)
