"""SI: Synaptic Intelligence (Zenke et al., 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recollect.core.losses import cross_entropy
from recollect.core.weights import Weights
from recollect.methods.boundary import About, Boundary
from recollect.methods.kept import kept_weights, room_for_weights
from recollect.methods.method import Method
from recollect.methods.step import Step

__all__ = ["SI"]


@dataclass(frozen=True)
class SI(Method):
    """Holds weights where they were, as far as moving them made the loss of past tasks fall.

    The way of every weight through a task is followed: minus its gradient times its change, summed
    over steps, is its share in the fall of the loss. When the task ends, that share over the
    squared way plus `xi` is added to the weight's importance, and later steps add `c` times the sum
    of importance times (w - w*)^2 to what they descend on, with w* the weights at the end.

    `recollect reproduce seq-mnist --methods si` makes its row of the paper's table.

    >>> SI(c=0.5)
    SI(c=0.5, xi=1.0)
    """

    c: float | Tensor = 1.0
    xi: float | Tensor = 1.0

    name: ClassVar[str] = "si"
    title: ClassVar[str] = "SI"
    needs_boundaries: ClassVar[bool] = True

    def own(self, about: About) -> dict[str, Tensor]:
        """Importance so far, the share in this task, and the weights at its start."""
        rooms = (room_for_weights(name, about.weights) for name in ("importance", "share", "last"))
        return {name: tensor for room in rooms for name, tensor in room.items()}

    def start_task(self, boundary: Boundary) -> None:
        """The way begins here."""
        for name, there in kept_weights(boundary.own, "last").named().items():
            there.copy_(boundary.weights.named()[name])

    def learn(self, step: Step) -> Tensor:
        """A step on the stream and the penalty, and what it did; the loss on the stream, `[K]`."""
        importance, last = (kept_weights(step.own, name) for name in ("importance", "last"))
        (logits,) = step.net(step.x)
        loss = cross_entropy(logits, step.y)
        gradient = step.gradient(loss).dense()
        pull = step.weights.map(lambda w, i, there: i * (w - there), importance, last)
        before = step.weights.snapshot()
        step.descend(pull, 2 * torch.as_tensor(self.c))
        step.descend(gradient)
        shares = kept_weights(step.own, "share").named()
        for name, slope in gradient.named().items():
            shares[name].addcmul_(slope, before.named()[name] - step.weights.named()[name])
        return loss.detach()

    def end_task(self, boundary: Boundary) -> None:
        """Turn shares into importance; one that made the loss rise counts nothing."""
        importance, share, last = (
            kept_weights(boundary.own, name) for name in ("importance", "share", "last")
        )
        xi = torch.as_tensor(self.xi)

        def earned(part: Tensor, here: Tensor, there: Tensor) -> Tensor:
            way = (here - there).square() + xi.view(-1, *[1] * (here.dim() - 1))
            return part.clamp(min=0) / way

        found: Weights = share.map(earned, boundary.weights, last)
        importance.add_(found, boundary.ones)
        for part in share:
            part.zero_()
