"""Methods whose declarations make no sense, or are not what they do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tests.testing.broken import Plain, Replay, breaks
from torch import Tensor

from recollect import ER, Method, Step
from recollect.methods import Boundary


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
