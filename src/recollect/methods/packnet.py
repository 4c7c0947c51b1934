"""PackNet: adding multiple tasks to a single network by pruning (Mallya and Lazebnik, 2018)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recollect.core.losses import cross_entropy_among
from recollect.core.weights import Weights
from recollect.errors import InputError
from recollect.methods.boundary import About, Boundary
from recollect.methods.kept import kept_weights
from recollect.methods.method import Build, Method
from recollect.methods.step import Step
from recollect.nets.settled import settled

__all__ = ["PackNet"]

MOST_TASKS = 254


@dataclass(frozen=True)
class PackNet(Method):
    """Packs tasks into one network: each keeps its largest weights, and frees the others.

    A task learns with all weights, and changes those that no earlier one owns. Then, in every
    layer, the smallest share `prune` of these is set to zero and left to later tasks; the others
    are its own, learn for `retrain` more epochs, and never change again. A test of a task uses the
    weights of that task and of earlier ones. The classes of a task compete among themselves, and
    their part of the head is its own; biases and normalisations belong to the first task.

    `recollect run seq-mnist packnet`

    >>> PackNet(prune=0.5, retrain=2).extra_epochs()
    2
    """

    prune: float | Tensor = 0.75
    retrain: int = 1

    name: ClassVar[str] = "packnet"
    title: ClassVar[str] = "PackNet"
    shaping: ClassVar[tuple[str, ...]] = ("retrain",)
    needs_boundaries: ClassVar[bool] = True
    revisits: ClassVar[bool] = True
    needs_task: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.prune, Tensor) and not 0 <= self.prune < 1:
            raise InputError(f"prune is a share, at least 0 and below 1, not {self.prune:g}")

    def learn(self, step: Step) -> Tensor:
        """A step of the weights that this task may change; the loss `[K]`."""
        own = step.own
        (logits,) = step.net(step.x)
        loss = cross_entropy_among(own["now"], logits, step.y)
        gradient = step.gradient(loss).dense()

        def allowed(part: Tensor, owner: Tensor) -> Tensor:
            learning = own["learning"].view(-1, *[1] * (part.dim() - 1))
            return torch.where(owner == learning, part, 0.0)

        step.descend(gradient.map(allowed, kept_weights(own, "owner")))
        return loss.detach()

    def network(self, build: Build, tasks: int) -> Build:
        """The same network; the statistics of its normalisations belong to the first task."""
        return settled(build)

    def own(self, about: About) -> dict[str, Tensor]:
        """Whose each weight is: 0 if it is free, or the number of a task, from 1.

        `learning` is whose weights learn now, `now` has the classes of the task, and `classes`
        says for a parameter of the head which classes its entries belong to.
        """
        if about.tasks > MOST_TASKS:
            raise InputError(f"PackNet packs up to {MOST_TASKS} tasks, not {about.tasks}")
        owners = {
            f"owner.weights.{name}": torch.zeros_like(tensor, dtype=torch.uint8)
            for name, tensor in about.weights.items()
        }
        classes = {}
        for name, axis in about.head.items():
            shape = [about.runs, *[1] * (about.weights[name].dim() - 1)]
            shape[axis] = about.classes
            numbers = torch.arange(about.classes).repeat(about.runs)
            classes[f"classes.{name}"] = numbers.view(shape)
        return {
            **owners,
            **classes,
            "learning": torch.zeros(about.runs, dtype=torch.uint8),
            "now": torch.zeros(about.runs, about.classes, dtype=torch.bool),
        }

    def start_task(self, boundary: Boundary) -> None:
        """Note the classes of the task; what is free may learn."""
        boundary.note_classes()
        boundary.own["learning"].zero_()

    def extra_epochs(self) -> int:
        """The epochs in which what the task keeps learns without what it lost."""
        return self.retrain

    def revise_task(self, boundary: Boundary) -> None:
        """Give the task its weights, set those that stay free to zero, and let its own learn."""
        own, number = boundary.own, boundary.clock.task + 1
        for name, weight in boundary.weights.named().items():
            owner = own[f"owner.weights.{name}"]
            free = owner == 0
            if f"classes.{name}" in own:
                place = own[f"classes.{name}"]
                mine = own["now"].gather(1, place.flatten(1)).view_as(place) & free
            elif weight[0].dim() < 2:
                mine = free
            else:
                mine = _largest(weight, free, 1 - torch.as_tensor(self.prune))
                weight.masked_fill_(free & ~mine, 0.0)
            owner.masked_fill_(mine, number)
        own["learning"].fill_(number)

    def for_task(self, weights: Weights, own: Mapping[str, Tensor], task: int) -> Weights:
        """The weights of this task and of earlier ones, and zeros."""

        def used(weight: Tensor, owner: Tensor) -> Tensor:
            return torch.where((owner > 0) & (owner <= task + 1), weight, 0.0)

        return weights.map(used, kept_weights(own, "owner"))


def _largest(weight: Tensor, free: Tensor, share: Tensor) -> Tensor:
    """Which of the free weights `[K, ...]` are the largest share of every run's, by magnitude."""
    size = weight.abs().masked_fill(~free, -1.0).flatten(1)
    order = size.sort(dim=1, descending=True, stable=True).indices
    rank = torch.arange(order.shape[1], device=order.device).expand_as(order)
    count = (free.flatten(1).sum(1) * share.to(free.device)).round()
    first = torch.zeros_like(order, dtype=torch.bool).scatter_(1, order, rank < count.view(-1, 1))
    return first.view(weight.shape)
