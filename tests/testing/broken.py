"""What methods that break a promise are made of: two that keep all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from recollect import ER, Method, Replay, Step

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
        return step.criterion(step.net(step.x)[0], step.y)


@dataclass(frozen=True)
class Replaying(Plain):
    """Keeps every promise, with a memory."""

    replay: ClassVar[Replay | None] = Replay(("x", "y"))

    def loss(self, step: Step) -> Tensor:
        return ER().loss(step)
