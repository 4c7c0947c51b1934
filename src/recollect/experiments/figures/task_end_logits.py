"""DER and DER++ with logits that are taken when a task ends, not along the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from recollect.methods import Method, Needs, Replay, Step, Task

__all__ = ["DERAtEnds", "DERppAtEnds"]


@final
@dataclass(frozen=True)
class DERAtEnds(Method):
    """DER, but an example has no logits to stay close to before its task is over.

    The memory is DER's reservoir. When a task ends, its examples there are given the logits of
    the network as it is then, which they keep. What the paper's figure compares DER with.
    """

    alpha: float | Tensor = 0.5

    name: ClassVar[str] = "der-at-ends"
    title: ClassVar[str] = "DER, logits at task ends"
    needs: ClassVar[Needs] = Needs(boundaries=True)
    replay: ClassVar[Replay] = Replay(("x", "logits"))

    def loss(self, step: Step) -> Tensor:
        """DER's loss, over the replayed examples that have logits."""
        past = step.draw()
        now, then = step.net(step.x, past.x)
        step.remember(logits=_none_yet(now))
        return step.criterion(now, step.y) + self.alpha * _distance(then, past.logits)

    def end_task(self, task: Task) -> None:
        """Take the logits of the task's examples."""
        _take_logits(task)


@final
@dataclass(frozen=True)
class DERppAtEnds(Method):
    """DER++, but an example has no logits to stay close to before its task is over."""

    alpha: float | Tensor = 0.5
    beta: float | Tensor = 0.5

    name: ClassVar[str] = "derpp-at-ends"
    title: ClassVar[str] = "DER++, logits at task ends"
    needs: ClassVar[Needs] = Needs(boundaries=True)
    replay: ClassVar[Replay] = Replay(("x", "y", "logits"), draws=2)

    def loss(self, step: Step) -> Tensor:
        """DER++'s loss; its first draw counts where there are logits, its second everywhere."""
        first, second = step.draw(), step.draw()
        now, then, also = step.net(step.x, first.x, second.x)
        step.remember(logits=_none_yet(now))
        return (
            step.criterion(now, step.y)
            + self.alpha * _distance(then, first.logits)
            + self.beta * step.criterion(also, second.y)
        )

    def end_task(self, task: Task) -> None:
        """Take the logits of the task's examples."""
        _take_logits(task)


def _none_yet(logits: Tensor) -> Tensor:
    return torch.full_like(logits, torch.nan)


def _distance(logits: Tensor, target: Tensor) -> Tensor:
    """The squared distance `[K]` to those targets `[K, n, C]` that are there, averaged over them.

    >>> target = torch.tensor([[[0.0, 0.0], [torch.nan, torch.nan]]])
    >>> _distance(torch.full((1, 2, 2), 3.0), target)
    tensor([9.])
    """
    taken = ~target.isnan()
    difference = torch.where(taken, logits - target, 0.0)
    return difference.square().sum((1, 2)) / taken.sum((1, 2)).clamp(min=1)


def _take_logits(task: Task) -> None:
    memory = task.memory
    filled = min(task.clock.seen, memory.capacity)
    rows = memory.rows(task.for_all(torch.arange(filled)))
    stored = memory.read(rows)
    now = task.logits(stored.x)
    memory.write(rows, {"logits": torch.where(stored.logits.isnan(), now, stored.logits)})
