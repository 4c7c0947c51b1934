"""A-GEM: Averaged Gradient Episodic Memory (Chaudhry et al., 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from recollect.core.losses import cross_entropy
from recollect.memory import Rule, TaskRing
from recollect.methods.method import Method
from recollect.methods.step import Step

__all__ = ["AGEM", "AGEMR"]


@dataclass(frozen=True)
class AGEM(Method):
    """Descends on the stream, unless that would raise the loss on a draw from memory.

    A gradient g that points against the draw's gradient r is replaced by the closest one that
    does not: g - (g.r / r.r) r. Every task has the same share of the memory.

    `recollect reproduce seq-mnist --methods agem` makes its rows of the paper's table.

    >>> AGEM().rule(60)
    TaskRing(capacity=60, whole=False)
    """

    name: ClassVar[str] = "agem"
    title: ClassVar[str] = "A-GEM"
    remembers: ClassVar[tuple[str, ...]] = ("x", "y")
    draws: ClassVar[int] = 1
    needs_boundaries: ClassVar[bool] = True

    def learn(self, step: Step) -> Tensor:
        """A step against the projected gradient; the loss on the stream."""
        return projected(step)

    def rule(self, capacity: int) -> Rule:
        """An equal share for every task; draws come from the earlier ones."""
        return TaskRing(capacity)


@dataclass(frozen=True)
class AGEMR(Method):
    """A-GEM with a reservoir for its memory, which needs no task boundaries.

    `recollect reproduce mnist-360 --methods agem-r` makes its rows of the paper's table.

    >>> AGEMR().rule(60)
    Reservoir(capacity=60)
    """

    name: ClassVar[str] = "agem-r"
    title: ClassVar[str] = "A-GEM-R"
    remembers: ClassVar[tuple[str, ...]] = ("x", "y")
    draws: ClassVar[int] = 1

    def learn(self, step: Step) -> Tensor:
        """A step against the projected gradient; the loss on the stream."""
        return projected(step)


def projected(step: Step) -> Tensor:
    """Descend on the stream without going against a draw; the loss `[K]`."""
    past = step.draw()
    (now,) = step.net(step.x)
    loss = cross_entropy(now, step.y)
    gradient, back = step.gradient(loss), None
    if past.x.shape[1]:
        (then,) = step.net(past.x)
        reference = step.gradient(cross_entropy(then, past.y))
        against = gradient.dot(reference).clamp(max=0)
        back = reference, -against / reference.dot(reference).clamp(min=SMALL)
    step.descend(gradient, also=back)
    return loss.detach()


SMALL = 1e-30
