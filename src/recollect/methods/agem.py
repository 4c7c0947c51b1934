"""A-GEM: Averaged Gradient Episodic Memory (Chaudhry et al., 2019)."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from recollect.memory import TaskRing
from recollect.methods.base import Method, Needs, Replay, Setup, Spec, Step

SMALL = 1e-30


def projected(method: Method, step: Step) -> Tensor:
    """Take a step whose gradient does not conflict with that of a draw; returns the loss `[K]`."""
    past = step.draw()
    (now,) = step.net(step.x)
    loss = step.criterion(now, step.y)
    gradient, back = step.model.gradient(loss), None
    if past.x.shape[1]:
        (then,) = step.net(past.x)
        reference = step.model.gradient(step.criterion(then, past.y))
        against = gradient.dot(reference).clamp(max=0)
        back = reference, -against / reference.dot(reference).clamp(min=SMALL)
    step.model.descend(gradient, also=back)
    return loss.detach()


@dataclass(frozen=True)
class AGEM(Method):
    """Projects the gradient so that the loss on a random batch from memory does not increase.

    A gradient g with a negative inner product with the gradient r of the replayed batch is
    replaced by its projection g - (g.r / r.r) r. Every task has an equal share of the memory.

    >>> AGEM.needs.boundaries, AGEMR.needs.boundaries
    (True, False)
    """

    name: ClassVar[str] = "agem"
    title: ClassVar[str] = "A-GEM"
    needs: ClassVar[Needs] = Needs(boundaries=True)
    replay: ClassVar[Replay] = Replay(("x", "y"))
    update = projected

    def setup(self, spec: Spec) -> Setup:
        """An equal share of the memory for every task; draws come from earlier tasks."""
        return Setup(policy=TaskRing(spec.capacity))


@dataclass(frozen=True)
class AGEMR(Method):
    """A-GEM with a reservoir memory, which needs no task boundaries.

    >>> AGEMR.needs.boundaries
    False
    """

    name: ClassVar[str] = "agem-r"
    title: ClassVar[str] = "A-GEM-R"
    replay: ClassVar[Replay] = Replay(("x", "y"))
    update = projected
