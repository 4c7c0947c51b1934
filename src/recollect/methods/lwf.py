"""LwF: Learning without Forgetting (Li and Hoiem, 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recollect.core.losses import among, cross_entropy_among
from recollect.core.random import Purpose, bits, permute
from recollect.core.weights import Weights
from recollect.methods.boundary import About, Boundary
from recollect.methods.kept import keep_network, room_for_network
from recollect.methods.method import Method
from recollect.methods.step import Step

__all__ = ["LwF"]


@dataclass(frozen=True)
class LwF(Method):
    """Learns a task while its answers for older classes stay those of the network before it.

    The classes of the task compete among themselves. To that, `alpha` times the cross-entropy
    between the old network's probabilities of the older classes and the new one's is added, both at
    temperature `T`, and `wd` times the squared norm of the weights. The old network's answers to
    an example are always the same, so it is asked when the example comes. Before a task, one
    pass over it trains what the head has for new classes, and nothing else.

    `recollect reproduce seq-mnist --methods lwf` makes its row of the paper's table.

    >>> LwF(alpha=0.5, wd=5e-4)
    LwF(alpha=0.5, T=2.0, wd=0.0005)
    """

    alpha: float | Tensor = 1.0
    T: float | Tensor = 2.0
    wd: float | Tensor = 0.0

    name: ClassVar[str] = "lwf"
    title: ClassVar[str] = "LwF"
    needs_boundaries: ClassVar[bool] = True
    revisits: ClassVar[bool] = True

    def own(self, about: About) -> dict[str, Tensor]:
        """The network before this task, its classes, and those of this task."""
        classes = (about.runs, about.classes)
        return {
            **room_for_network("old", about.weights, about.buffers),
            "known": torch.zeros(classes, dtype=torch.bool),
            "now": torch.zeros(classes, dtype=torch.bool),
        }

    def start_task(self, boundary: Boundary) -> None:
        """Note the classes of the task, and warm up what the head has for the new ones."""
        boundary.note_classes()
        if boundary.clock.task:
            _warm_up(boundary)

    def learn(self, step: Step) -> Tensor:
        """A step on the task, the older answers and the norm of the weights; the loss `[K]`."""
        (logits,) = step.net(step.x)
        before = step.look(step.x, "old")
        now, known = step.own["now"], step.own["known"]
        heat = torch.as_tensor(self.T).view(-1, 1, 1)
        then, still = (among(known, some / heat) for some in (before, logits))
        changed = -(then.exp() * still).sum(2) * known.any(1, keepdim=True)
        loss = cross_entropy_among(now, logits, step.y) + self.alpha * changed.mean(1)
        gradient = step.gradient(loss)
        trained = {n: w for n, w in step.weights.named().items() if n in gradient.parts}
        step.descend(Weights(trained), 2 * torch.as_tensor(self.wd))
        step.descend(gradient)
        return loss.detach()

    def end_task(self, boundary: Boundary) -> None:
        """Keep the network, which now knows the classes of this task."""
        keep_network(boundary.own, "old", boundary.weights, boundary.buffers)
        boundary.own["known"].logical_or_(boundary.own["now"])


def _warm_up(boundary: Boundary) -> None:
    """One pass of descent over the task for what the head has for classes that are new."""
    descent, own = boundary.scratch(), boundary.own
    weight, bias = descent.network.head(boundary.weights)
    new = (own["now"] & ~own["known"]).to(weight.dtype)
    key = bits(boundary.seeds, Purpose.WARM, boundary.clock.task)
    places = torch.arange(boundary.count, device=key.device)
    order = permute(key[:, None], places, boundary.count)
    for some in torch.split(order, boundary.batch, 1):
        x, y = boundary.examples(some)
        features = boundary.features(x)
        logits = features @ weight
        if bias is not None:
            logits += bias.unsqueeze(1)
        errors = among(own["now"], logits).exp()
        errors.scatter_add_(2, y.unsqueeze(2), -torch.ones_like(errors[..., :1]))
        errors *= (new * -descent.rate.unsqueeze(1) / y.shape[1]).unsqueeze(1)
        weight.add_(features.mT @ errors)
        if bias is not None:
            bias.add_(errors.sum(1))
