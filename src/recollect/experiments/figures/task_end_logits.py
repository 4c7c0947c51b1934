"""Variants of DER and DER++ that compute stored logits at task ends, not during training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from recollect.methods import Method, Needs, Replay, Step, Task


@final
@dataclass(frozen=True)
class DERAtEnds(Method):
    """DER whose stored logits are computed when the task of an example ends.

    The memory is DER's reservoir. Examples have no logits before their task ends, and never change
    them afterwards. The paper's Fisher figure compares DER with this variant.
    """

    alpha: float | Tensor = 0.5

    name: ClassVar[str] = "der-at-ends"
    title: ClassVar[str] = "DER, logits at task ends"
    needs: ClassVar[Needs] = Needs(boundaries=True)
    replay: ClassVar[Replay] = Replay(("x", "logits"))

    def loss(self, step: Step) -> Tensor:
        """Compute DER's loss over the replayed examples that have logits."""
        past = step.draw()
        now, then = step.net(step.x, past.x)
        step.remember(logits=_none_yet(now))
        return step.criterion(now, step.y) + self.alpha * _distance(then, past.logits)

    def end_task(self, task: Task) -> None:
        """Store the logits of the task's examples."""
        _take_logits(task)


@final
@dataclass(frozen=True)
class DERppAtEnds(Method):
    """DER++ whose stored logits are computed when the task of an example ends."""

    alpha: float | Tensor = 0.5
    beta: float | Tensor = 0.5

    name: ClassVar[str] = "derpp-at-ends"
    title: ClassVar[str] = "DER++, logits at task ends"
    needs: ClassVar[Needs] = Needs(boundaries=True)
    replay: ClassVar[Replay] = Replay(("x", "y", "logits"), draws=2)

    def loss(self, step: Step) -> Tensor:
        """Compute DER++'s loss; its first term uses only replayed examples that have logits."""
        first, second = step.draw(), step.draw()
        now, then, also = step.net(step.x, first.x, second.x)
        step.remember(logits=_none_yet(now))
        return (
            step.criterion(now, step.y)
            + self.alpha * _distance(then, first.logits)
            + self.beta * step.criterion(also, second.y)
        )

    def end_task(self, task: Task) -> None:
        """Store the logits of the task's examples."""
        _take_logits(task)


def _none_yet(logits: Tensor) -> Tensor:
    return torch.full_like(logits, torch.nan)


def _distance(logits: Tensor, target: Tensor) -> Tensor:
    """Mean squared distance `[K]` to the targets `[K, n, C]` that are not NaN.

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
