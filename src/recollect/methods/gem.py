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
    """Projects the gradient so that the loss on the memory of no past task increases.

    A gradient g with a negative inner product with any of the past tasks' gradients G is replaced
    by g + G'v, where v minimises |g + G'v| subject to v >= `gamma`. For gamma = 0 this is the
    closest gradient to g without a conflict; a larger gamma also favours past tasks. `ridge` adds
    ridge |v|^2 to the objective |g + G'v|^2, so that past tasks with tiny gradients affect g less;
    its default is that of the authors' code. Every task has an equal share of the memory.

    >>> GEM(gamma=0.1)
    GEM(gamma=0.1, ridge=0.001)
    """

    gamma: float | Tensor = hyper(0.5, "lower bound of the weight of a past task's gradient")
    ridge: float | Tensor = hyper(1e-3, "added to the diagonal of the quadratic programme")

    name: ClassVar[str] = "gem"
    title: ClassVar[str] = "GEM"
    needs: ClassVar[Needs] = Needs(boundaries=True)
    replay: ClassVar[Replay] = Replay(("x", "y"))

    def update(self, step: Step) -> Tensor:
        draws = [step.draw() for _ in step.replays]
        past = [(draw.x, draw.y) for draw in draws if draw.x.shape[1]]
        if not past:
            return SGD().update(step)
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
        """An equal share of the memory for every task, and a draw for every earlier task."""
        replay = Replay(self.replay.fields, draws=spec.tasks - 1)
        return Setup(policy=TaskRing(spec.capacity, whole=True), replay=replay)
