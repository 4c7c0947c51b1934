"""GEM: Gradient Episodic Memory (Lopez-Paz and Ranzato, 2017)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recollect.core.quadratic import lowest
from recollect.memory import TaskRing
from recollect.methods.base import Method, Needs, Replay, Setup, Spec, Step, hyper
from recollect.methods.sgd import SGD


@dataclass(frozen=True)
class GEM(Method):
    """Descends on the stream, unless that would raise the loss on what is stored of a past task.

    A gradient g that points against one of the gradients G of past tasks is replaced by g + G'v,
    where v minimises |g + G'v| and is nowhere below `gamma`. For gamma = 0 that is the gradient
    closest to g that points against none of them; a larger one also moves towards the past. A
    `ridge` adds ridge |v|^2 to |g + G'v|^2: past tasks whose gradients are tiny then bend g less;
    the default is that of the publication's own code.
    Every task has the same share of the memory.

    >>> GEM(gamma=0.1)
    GEM(gamma=0.1, ridge=0.001)
    """

    gamma: float | Tensor = hyper(0.5, "least weight of the gradient of a past task")
    ridge: float | Tensor = hyper(1e-3, "added to the diagonal of the quadratic programme")

    name: ClassVar[str] = "gem"
    title: ClassVar[str] = "GEM"
    needs: ClassVar[Needs] = Needs(boundaries=True)
    replay: ClassVar[Replay] = Replay(("x", "y"))

    def loss(self, step: Step) -> Tensor:
        return SGD().loss(step)

    def update(self, step: Step) -> Tensor:
        draws = [step.draw() for _ in step.replays]
        past = [(draw.x, draw.y) for draw in draws if draw.x.shape[1]]
        if not past:
            return super().update(step)
        losses, gradients = step.model.gradients([*past, (step.x, step.y)])
        dots = gradients.dots()
        past_dots, along = dots[:, :-1, :-1], dots[:, :-1, -1]
        gamma, ridge = (
            torch.as_tensor(given).expand(len(dots)) for given in (self.gamma, self.ridge)
        )
        v = lowest(past_dots + torch.diag_embed(ridge[:, None].expand_as(along)), along, gamma)
        v = torch.where((along < 0).any(1, keepdim=True), v, 0.0)
        step.model.descend(gradients.mixed(torch.cat([v, torch.ones_like(v[:, :1])], 1)))
        return losses[:, -1]

    def setup(self, spec: Spec) -> Setup:
        """An equal share of the memory for every task; a draw is all there is of an earlier one."""
        replay = Replay(self.replay.fields, draws=spec.tasks - 1)
        return Setup(policy=TaskRing(spec.capacity, whole=True), replay=replay)
