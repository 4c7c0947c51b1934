"""SI: Synaptic Intelligence (Zenke et al., 2017)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recollect.core.weights import Weights
from recollect.methods.base import Method, Needs, Setup, Spec, Step, Task, hyper


@dataclass(frozen=True)
class SI(Method):
    """Holds weights where they were, as far as moving them made the loss of past tasks fall.

    The way of every weight through a task is followed: minus its gradient times its change, summed
    over steps, is its share in the fall of the loss. When the task ends, that share over the
    squared way plus `xi` is added to the weight's importance, and later steps add `c` times the sum
    of importance times (w - w*)^2 to what they descend on, with w* the weights at the end.

    >>> SI(c=0.5)
    SI(c=0.5, xi=1.0)
    """

    c: float | Tensor = hyper(1.0, "weight of the penalty")
    xi: float | Tensor = hyper(1.0, "added to the squared change of a weight")

    name: ClassVar[str] = "si"
    title: ClassVar[str] = "SI"
    needs: ClassVar[Needs] = Needs(boundaries=True)

    def setup(self, spec: Spec) -> Setup:
        """Importance so far, the share in this task, and the weights at its start."""
        return Setup(
            state=lambda model: {
                **model.zeros("importance"),
                **model.zeros("share"),
                **model.zeros("last"),
            }
        )

    def start_task(self, task: Task) -> None:
        for name, there in task.state.weights("last").named().items():
            there.copy_(task.model.weights.named()[name])

    def update(self, step: Step) -> Tensor:
        """A step on the stream and the penalty, and what it did; the loss on the stream, `[K]`."""
        importance, last = (step.state.weights(name) for name in ("importance", "last"))
        (logits,) = step.net(step.x)
        loss = step.criterion(logits, step.y)
        gradient = step.model.gradient(loss).dense()
        pull = step.model.weights.map(lambda w, i, there: i * (w - there), importance, last)
        before = step.model.weights.snapshot()
        step.model.descend(gradient, also=(pull, 2 * torch.as_tensor(self.c)))
        shares = step.state.weights("share").named()
        for name, part in gradient.named().items():
            shares[name].addcmul_(part, before.named()[name] - step.model.weights.named()[name])
        return loss.detach()

    def end_task(self, task: Task) -> None:
        """Turn shares into importance; one that made the loss rise counts nothing."""
        importance, share, last = (
            task.state.weights(name) for name in ("importance", "share", "last")
        )
        xi = torch.as_tensor(self.xi)

        def earned(part: Tensor, here: Tensor, there: Tensor) -> Tensor:
            way = (here - there).square() + xi.view(-1, *[1] * (here.dim() - 1))
            return part.clamp(min=0) / way

        found: Weights = share.map(earned, task.model.weights, last)
        importance.add_(found, task.model.ones)
        for part in share:
            part.zero_()
