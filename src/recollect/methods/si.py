"""SI: Synaptic Intelligence (Zenke et al., 2017)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recollect.core.weights import Weights, column
from recollect.methods.base import Method, Needs, Setup, Spec, Step, Task, hyper


@dataclass(frozen=True)
class SI(Method):
    """Penalises changes of weights in proportion to their contribution to past loss decreases.

    The contribution of a weight is minus its gradient times its change, summed over the steps of a
    task. When the task ends, this sum divided by the squared total change plus `xi` is added to the
    weight's importance. The loss of later steps has the penalty `c` times the sum of importance
    times (w - w*)^2, with w* the weights at the end of the last task.

    >>> SI(c=0.5)
    SI(c=0.5, xi=1.0)
    """

    c: float | Tensor = hyper(1.0, "weight of the penalty")
    xi: float | Tensor = hyper(1.0, "damping: added to the squared change of a weight")

    name: ClassVar[str] = "si"
    title: ClassVar[str] = "SI"
    needs: ClassVar[Needs] = Needs(boundaries=True)

    def setup(self, spec: Spec) -> Setup:
        """Importance, contributions in this task, and the weights at its start."""
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
        """Take a step with the penalty and add up contributions; returns the batch loss, `[K]`."""
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
        """Add contributions to the importance; negative ones count as zero."""
        importance, share, last = (
            task.state.weights(name) for name in ("importance", "share", "last")
        )
        xi = torch.as_tensor(self.xi)

        def earned(part: Tensor, here: Tensor, there: Tensor) -> Tensor:
            way = (here - there).square() + column(xi, here)
            return part.clamp(min=0) / way

        found: Weights = share.map(earned, task.model.weights, last)
        importance.add_(found, task.model.ones)
        for part in share:
            part.zero_()
