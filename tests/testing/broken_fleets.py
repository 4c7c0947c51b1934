"""Methods that do not fit in fleets, in files, or on streams that they say they fit on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from tests.testing.broken import Plain, Replaying, breaks
from torch import Tensor

from recollect import Needs, Query, Setup, Spec, Step, Task, hyper
from recollect.memory import Arrivals, Reservoir, TaskRing


@breaks(
    "steps", "Plain: the loss of run 0 changes with the inputs of run 1: reduce over the examples"
)
@dataclass(frozen=True)
class Sociable(Plain):
    """Learns faster beside others who learn."""

    def loss(self, step: Step) -> Tensor:
        mine = super().loss(step)
        return mine * mine.detach().mean()


@breaks(
    "steps", "to combine it with logits [K, n, C], write torch.as_tensor(self.T).view(-1, 1, 1)"
)
@dataclass(frozen=True)
class Tempered(Plain):
    """Divides logits by a temperature, without the axes that it has not."""

    T: float | Tensor = hyper(2.0, "temperature")

    def loss(self, step: Step) -> Tensor:
        return step.criterion(step.net(step.x)[0] / self.T, step.y)


@breaks("company-broadcast", "the prediction differs by")
@dataclass(frozen=True)
class Voting(Plain):
    """Predicts what all runs say together."""

    def predict(self, query: Query) -> Tensor:
        logits = query.model.logits(query.x)
        return logits.mean(0, keepdim=True).expand_as(logits)


@breaks("company-loop", "(loop network)")
@dataclass(frozen=True)
class Equal(Plain):
    """Lets all runs have the same weights in the end."""

    needs: ClassVar[Needs] = Needs(boundaries=True)

    def end_task(self, task: Task) -> None:
        for tensor in task.model.weights:
            tensor.copy_(tensor.mean(0, keepdim=True).expand_as(tensor))


@breaks("company-broadcast", "a run of a fleet differs from the run alone after step 1")
@breaks("company-vmap", "(vmap network)")
@breaks("strategies", "networks called with the strategy 'vmap' give another result")
@dataclass(frozen=True)
class Counting(Plain):
    """Learns faster, the more runs there are."""

    def loss(self, step: Step) -> Tensor:
        return super().loss(step) * len(step.y)


@dataclass(frozen=True)
class Hasty(Reservoir):
    """Plans otherwise if it plans two steps."""

    def slots(self, arrivals: Arrivals) -> Tensor:
        found = super().slots(arrivals)
        return found.flip(2) if arrivals.steps == 2 else found


@breaks("stretches", "training in one call differs from training step by step")
@dataclass(frozen=True)
class Impatient(Replaying):
    """Has a policy that plans otherwise if it plans two steps."""

    def setup(self, spec: Spec) -> Setup:
        return Setup(policy=Hasty(spec.capacity))


@breaks("recorded", "its step reads the values of tensors (__bool__, tolist), as `if loss > 0`")
@dataclass(frozen=True)
class Branching(Plain):
    """Looks at its loss, and changes nothing."""

    def loss(self, step: Step) -> Tensor:
        mine = super().loss(step)
        return mine if bool((mine > -1).all()) and mine.tolist() else -mine


@breaks("recorded", "a captured step gives another result")
@dataclass(frozen=True)
class Touchy(Plain):
    """Learns by where its labels lie."""

    def loss(self, step: Step) -> Tensor:
        return super().loss(step) / (1 + int(step.y.storage_offset()))


@breaks("restored", "saved and restored after step 4, it gives another result")
@breaks("learner", "a learner that was loaded from a file has the loss")
@dataclass(frozen=True)
class Absent(Plain):
    """Counts its steps where nobody saves them."""

    counts: ClassVar[dict[int, list[Any]]] = {}

    def setup(self, spec: Spec) -> Setup:
        return Setup(state=lambda model: {"nothing": torch.zeros(spec.runs)})

    def loss(self, step: Step) -> Tensor:
        mine = self.counts.setdefault(id(step.state), [step.state, 0])
        mine[1] += 1
        return super().loss(step) / float(mine[1])


@breaks("boundaries", "without boundaries its memory stays empty")
@dataclass(frozen=True)
class Waiting(Replaying):
    """Replays earlier tasks, and does not ask where they end."""

    def setup(self, spec: Spec) -> Setup:
        return Setup(policy=TaskRing(spec.capacity))


@breaks("boundaries", "it declares `boundaries`, but learns the same without")
@dataclass(frozen=True)
class Anxious(Plain):
    """Asks for what it does not use."""

    needs: ClassVar[Needs] = Needs(boundaries=True)


@breaks("revisits", "it reads examples again (reads them at task start or end)")
@dataclass(frozen=True)
class Nostalgic(Plain):
    """Reads a task once more when it is over."""

    needs: ClassVar[Needs] = Needs(boundaries=True)

    def end_task(self, task: Task) -> None:
        x, _ = task.examples(task.for_all(torch.arange(2)))
        factor = 1 + x.flatten(1).double().mean(1) / 1000
        for tensor in task.model.weights:
            tensor.mul_(factor.view(-1, *[1] * (tensor.dim() - 1)))


@breaks("revisits", "it reads examples again (requests more epochs)")
@dataclass(frozen=True)
class Eager(Plain):
    """Asks for an epoch more."""

    needs: ClassVar[Needs] = Needs(boundaries=True)

    def end_task(self, task: Task) -> None:
        task.extend(1)


@breaks("revisits", "it declares `revisits`, but reads no example again")
@dataclass(frozen=True)
class Modest(Plain):
    """Is better than it says."""

    needs: ClassVar[Needs] = Needs(revisits=True)


@breaks("task", "predicts the same for every task")
@dataclass(frozen=True)
class Needy(Plain):
    """Asks for the task, and does not use it."""

    needs: ClassVar[Needs] = Needs(boundaries=True, task_id=True)


@breaks("tasks", "bytes more: declare Needs(grows=True)")
@dataclass(frozen=True)
class Growing(Plain):
    """Has room for every task."""

    def setup(self, spec: Spec) -> Setup:
        return Setup(state=lambda model: {"task": torch.zeros(spec.runs, spec.tasks)})


@breaks("tasks", "bytes more: declare Needs(grows=True)")
@dataclass(frozen=True)
class GrowingInSecret(Plain):
    """Keeps the weights of every task."""

    needs: ClassVar[Needs] = Needs(boundaries=True)
    past: ClassVar[list[Any]] = []

    def end_task(self, task: Task) -> None:
        self.past.append(task.model.weights.snapshot())


@breaks("tasks", "it declares `grows`, but does not store more with more tasks")
@dataclass(frozen=True)
class Small(Plain):
    """Is smaller than it says."""

    needs: ClassVar[Needs] = Needs(grows=True)
