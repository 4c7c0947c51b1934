"""Methods whose declarations make no sense, or are not what they do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from tests.testing.broken import Plain, Replaying, breaks
from torch import Tensor, nn

from recollect import ER, Field, Method, Needs, Replay, Setup, Spec, Step, Task, hyper
from recollect.core.weights import State
from recollect.memory import TaskShares
from recollect.methods import ClosedForm


@breaks("declarations", "it has no title: define one")
@dataclass(frozen=True)
class Untitled(Plain):
    """Has an empty title."""

    title: ClassVar[str] = ""


@breaks("declarations", "already a method with the name er or the title Mine, of recollect")
@dataclass(frozen=True)
class Homonymous(Plain):
    """Has the name of another method."""

    name: ClassVar[str] = "er"
    title: ClassVar[str] = "Mine"


@breaks("declarations", "it has no docstring")
@dataclass(frozen=True)
class Unexplained(Plain):
    weight: float = hyper(1.0, "weight of the loss")


@breaks("declarations", "add @dataclass(frozen=True) to the class")
class Undecorated(Plain):
    """Has a hyper-parameter that does not exist."""

    weight: float = 1.0


@breaks("declarations", "weight has no help text: declare it with weight: float | Tensor = ")
@dataclass(frozen=True)
class Unhelpful(Plain):
    """Does not say what its hyper-parameter does."""

    weight: float = 1.0


@breaks("declarations", "it never uses its hyper-parameter beta: read self.beta, or remove it")
@dataclass(frozen=True)
class Indifferent(Plain):
    """Has two hyper-parameters, and uses one."""

    alpha: float = hyper(1.0, "weight of the loss")
    beta: float = hyper(1.0, "weight of nothing")

    def loss(self, step: Step) -> Tensor:
        return self.alpha * super().loss(step)


@breaks(
    "effects", "its hyper-parameter beta has no effect: with beta = 2, 0.5, 0.001, 1000, 0 a run"
)
@dataclass(frozen=True)
class Ineffective(Plain):
    """Has two hyper-parameters, and multiplies one by 0."""

    alpha: float = hyper(1.0, "weight of the loss")
    beta: float = hyper(1.0, "weight of nothing")

    def loss(self, step: Step) -> Tensor:
        return (self.alpha + 0 * self.beta) * super().loss(step)


@breaks(
    "effects",
    "its hyper-parameter on has no effect: with on = 2 a run is the same as with 1; use it, or "
    "remove it, or, if it is a switch, declare it with the default 0",
)
@dataclass(frozen=True)
class SwitchedOn(Plain):
    """Has a switch that is on by default."""

    on: int = hyper(1, "whether to learn")

    def loss(self, step: Step) -> Tensor:
        return super().loss(step) if self.on else 0 * super().loss(step)


@breaks("declarations", "on is True: declare a switch with on: int = recollect.hyper(0, '...'), 0 ")
@dataclass(frozen=True)
class Truthful(Plain):
    """Has a switch that is not a number."""

    on: bool = hyper(True, "whether to learn")

    def loss(self, step: Step) -> Tensor:
        return super().loss(step) if self.on else 0 * super().loss(step)


@breaks("declarations", "it defines end_task, which is only called if it declares Needs(boundaries")
@dataclass(frozen=True)
class Deaf(Plain):
    """Waits for a call that never comes."""

    def end_task(self, task: Task) -> None:
        raise AssertionError("nobody calls this")


@breaks("declarations", "it defines neither loss nor update")
@dataclass(frozen=True)
class Idle(Method):
    """Does nothing."""

    name: ClassVar[str] = "idle"
    title: ClassVar[str] = "Idle"


@breaks("declarations", "its setup returns None: it must return a recollect.Setup")
@dataclass(frozen=True)
class Careless(Plain):
    """Forgets to return its setup."""

    def setup(self, spec: Spec) -> Any:
        Setup(policy=TaskShares(spec.capacity))


@breaks("declarations", "its setup has a replay, but its class has none")
@dataclass(frozen=True)
class Hidden(Plain):
    """Has a memory that its class does not tell of."""

    def setup(self, spec: Spec) -> Setup:
        return Setup(replay=Replay(("x", "y")))


@breaks("steps", "the method calls step.draw more often than it declares: `draws` of its replay")
@dataclass(frozen=True)
class Greedy(Replaying):
    """Draws twice."""

    def loss(self, step: Step) -> Tensor:
        return ER().loss(step) + ER().loss(step)


@breaks("draws", "it declares 2 draws per step but never uses draw 2")
@dataclass(frozen=True)
class Wasteful(Replaying):
    """Draws once, and reads it in three ways."""

    replay: ClassVar[Replay | None] = Replay(("x", "y"), draws=2)

    def loss(self, step: Step) -> Tensor:
        step.plain(step.replays[0])
        step.rewrite(step.replays[0], y=step.replays[0].y)
        return ER().loss(step)


@breaks("fields", "it declares the stored field 'logits' but does not set it")
@dataclass(frozen=True)
class Withholding(Replaying):
    """Does not say which logits to store."""

    replay: ClassVar[Replay | None] = Replay(("x", "y", "logits"))


@breaks("steps", "step.remember got 'logits', which is not a field of the memory: declare it in")
@dataclass(frozen=True)
class Generous(Replaying):
    """Gives logits that are not stored."""

    def loss(self, step: Step) -> Tensor:
        step.remember(logits=step.net(step.x)[0])
        return ER().loss(step)


@breaks(
    "fields", "it passes 'weight' to step.remember as [3, 5, 6] of torch.float64, but declares [3"
)
@dataclass(frozen=True)
class Misshapen(Replaying):
    """Gives a field in another shape than it declares."""

    replay: ClassVar[Replay | None] = Replay(("x", "y", Field("weight", (), torch.float64)))

    def loss(self, step: Step) -> Tensor:
        step.remember(weight=step.net(step.x)[0])
        return ER().loss(step)


@breaks(
    "fields", "it passes 'weight' to step.remember as [3, 5] of torch.float64, but declares [3, 5]"
)
@dataclass(frozen=True)
class Mistyped(Replaying):
    """Gives a field in another type than it declares."""

    replay: ClassVar[Replay | None] = Replay(("x", "y", Field("weight", (), torch.float32)))

    def loss(self, step: Step) -> Tensor:
        step.remember(weight=step.random(1)[..., 0].double())
        return ER().loss(step)


@breaks("steps", "step.rewrite got 'logits', which is not a field of the memory")
@dataclass(frozen=True)
class Revising(Replaying):
    """Rewrites a field that does not exist."""

    def loss(self, step: Step) -> Tensor:
        past = step.draw()
        step.rewrite(past, logits=step.net(past.x)[0])
        return Plain.loss(self, step)


@breaks("fields", "it passes 'y' to step.rewrite as")
@dataclass(frozen=True)
class Muddling(Replaying):
    """Rewrites labels with logits."""

    def loss(self, step: Step) -> Tensor:
        past = step.draw()
        step.rewrite(past, y=step.net(step.x)[0])
        return Plain.loss(self, step)


@breaks("writes", "in step.store_at, slots go from 13 to 17 with a capacity of 12")
@dataclass(frozen=True)
class Overfull(Replaying):
    """Chooses slots that do not exist."""

    def loss(self, step: Step) -> Tensor:
        step.store_at(torch.arange(13, 13 + step.y.shape[1]).expand_as(step.y))
        return ER().loss(step)


@breaks("writes", "in step.store_at, two examples of a batch have the same slot")
@dataclass(frozen=True)
class Crowding(Replaying):
    """Chooses one slot for all."""

    def loss(self, step: Step) -> Tensor:
        step.store_at(torch.zeros_like(step.y))
        return ER().loss(step)


@breaks("writes", "it passes slots of shape [3, 1] to step.store_at for batches of 5")
@dataclass(frozen=True)
class Picky(Replaying):
    """Chooses a slot for the first example only."""

    def loss(self, step: Step) -> Tensor:
        step.store_at(step.slots[:, :1])
        return ER().loss(step)


@breaks(
    "writes", "it rehearses 4 stored examples in task 1, but its memory changes during the task"
)
@dataclass(frozen=True)
class Restless(Replaying):
    """Rehearses from a memory that takes in what arrives."""

    needs: ClassVar[Needs] = Needs(boundaries=True)

    def start_task(self, task: Task) -> None:
        task.rehearse(4 if task.clock.task else 0)


@breaks("trains", "it does not train any weights: make it a `ClosedForm`")
@dataclass(frozen=True)
class Counting(Plain):
    """Counts examples, and does not say that it trains nothing."""

    def setup(self, spec: Spec) -> Setup:
        return Setup(state=lambda model: {"count": torch.zeros(spec.runs)})

    def update(self, step: Step) -> Tensor:
        step.state["count"].add_(step.y.shape[1])
        return step.model.ones


@breaks("trains", "it is a `ClosedForm`, but weights.")
@dataclass(frozen=True)
class Thawing(ClosedForm):
    """Trains weights, and says that it does not."""

    name: ClassVar[str] = "thawing"
    title: ClassVar[str] = "Thawing"

    def loss(self, step: Step) -> Tensor:
        return Plain().loss(step)

    def export(self, module: nn.Module, state: State) -> nn.Module:
        return module
