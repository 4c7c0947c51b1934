"""GEM: Gradient Episodic Memory (Lopez-Paz and Ranzato, 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recollect.core.losses import cross_entropy
from recollect.core.quadratic import lowest
from recollect.memory import Rule, TaskRing
from recollect.methods.method import Method
from recollect.methods.step import Step

__all__ = ["GEM"]


@dataclass(frozen=True)
class GEM(Method):
    """Descends on the stream, unless that would raise the loss on what is kept of a past task.

    A gradient g that points against one of the gradients G of past tasks is replaced by g + G'v,
    where v minimises |g + G'v| and is nowhere below `gamma`. For gamma = 0 that is the gradient
    closest to g that points against none of them; a larger one also moves towards the past. A
    `ridge` adds ridge |v|^2 to |g + G'v|^2: past tasks whose gradients are tiny then bend g less;
    the default is that of the publication's own code.
    Every task has the same share of the memory.

    `recollect reproduce seq-mnist --methods gem` makes its rows of the paper's table.

    >>> GEM(gamma=0.1)
    GEM(gamma=0.1, ridge=0.001)
    >>> GEM().rule(60)
    TaskRing(capacity=60, whole=True)
    """

    gamma: float | Tensor = 0.5
    ridge: float | Tensor = 1e-3

    name: ClassVar[str] = "gem"
    title: ClassVar[str] = "GEM"
    remembers: ClassVar[tuple[str, ...]] = ("x", "y")
    needs_boundaries: ClassVar[bool] = True

    def loss(self, step: Step) -> Tensor:
        """Cross-entropy on the stream."""
        (now,) = step.net(step.x)
        return cross_entropy(now, step.y)

    def learn(self, step: Step) -> Tensor:
        """A step against the projected gradient; the loss on the stream."""
        draws = [step.draw() for _ in step.replays]
        past = [(draw.x, draw.y) for draw in draws if draw.x.shape[1]]
        if not past:
            return super().learn(step)
        losses, gradients = step.gradients([*past, (step.x, step.y)])
        dots = gradients.dots()
        past_dots, along = dots[:, :-1, :-1], dots[:, :-1, -1]
        gamma, ridge = (
            torch.as_tensor(given).expand(len(dots)) for given in (self.gamma, self.ridge)
        )
        v = lowest(past_dots + torch.diag_embed(ridge[:, None].expand_as(along)), along, gamma)
        v = torch.where((along < 0).any(1, keepdim=True), v, 0.0)
        step.descend(gradients.mixed(torch.cat([v, torch.ones_like(v[:, :1])], 1)))
        return losses[:, -1]

    def rule(self, capacity: int) -> Rule:
        """An equal share for every task; a draw is all there is of an earlier one."""
        return TaskRing(capacity, whole=True)
