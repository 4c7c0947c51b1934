"""PackNet: adding multiple tasks to a single network by pruning (Mallya and Lazebnik, 2018)."""

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from recollect.core.batchnorm import PartNorm
from recollect.core.by_task import ByTask
from recollect.core.losses import cross_entropy_among
from recollect.core.model import Model
from recollect.core.modules import maker
from recollect.core.weights import column
from recollect.errors import InputError
from recollect.methods.base import Classifier, Needs, Query, Setup, Spec, Step, Task, hyper

MOST_TASKS = 254


@dataclass(frozen=True)
class PackNet(Classifier):
    """Packs tasks into one network by pruning: each task keeps its largest weights.

    A task uses all weights and trains those that no earlier task owns. At its end, the share
    `prune` of these weights with the smallest magnitude is set to zero in every layer and left to
    later tasks; the task owns the others, which are trained for `retrain` more epochs and then
    frozen. Predictions for a task use the weights of this task and of earlier ones. The softmax is
    over the classes of the task, which owns their part of the head; biases and normalisation
    layers belong to the first task.

    >>> PackNet(prune=0.5, retrain=2)
    PackNet(prune=0.5, retrain=2)
    """

    prune: float | Tensor = hyper(0.75, "share of a layer's free weights to prune at task end")
    retrain: int = hyper(1, "epochs of training after pruning")

    name: ClassVar[str] = "packnet"
    title: ClassVar[str] = "PackNet"
    needs: ClassVar[Needs] = Needs(boundaries=True, task_id=True, revisits=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.prune, Tensor) and not 0 <= self.prune < 1:
            raise InputError(f"prune must be at least 0 and below 1, not {self.prune:g}")

    def setup(self, spec: Spec) -> Setup:
        """The owner of each weight: 0 if it is free, or the number of a task, from 1.

        `learning` is the owner whose weights are trained, `now` a mask of the task's classes, and
        `classes` the class that each entry of a head parameter belongs to. The statistics of
        normalisation layers belong to the first task.
        """
        if spec.tasks > MOST_TASKS:
            raise InputError(f"PackNet supports at most {MOST_TASKS} tasks, not {spec.tasks}")

        def state(model: Model) -> dict[str, Tensor]:
            owners = {name: t.to(torch.uint8) for name, t in model.zeros("owner").items()}
            classes = {}
            for name, axis in model.network.head_axes.items():
                shape = [spec.runs, *[1] * (model.weights.named()[name].dim() - 1)]
                shape[axis] = spec.classes
                numbers = torch.arange(spec.classes).repeat(spec.runs)
                classes[f"classes.{name}"] = numbers.view(shape)
            return {
                **owners,
                **classes,
                "learning": torch.zeros(spec.runs, dtype=torch.uint8),
                "now": torch.zeros(spec.runs, spec.classes, dtype=torch.bool),
            }

        return Setup(state=state, network=lambda build: lambda: Settled(maker(build)()))

    def update(self, step: Step) -> Tensor:
        """Take a step on the weights that this task may change; returns the loss `[K]`."""
        state = step.state
        (logits,) = step.net(step.x)
        loss = cross_entropy_among(state["now"], logits, step.y)
        gradient = step.model.gradient(loss)

        def allowed(owner: Tensor) -> Tensor:
            return (owner == column(state["learning"], owner)).to(loss.dtype)

        step.model.descend(gradient, share=state.weights("owner").map(allowed))
        return loss.detach()

    def start_task(self, task: Task) -> None:
        task.mark_classes()
        task.state["learning"].zero_()

    def end_task(self, task: Task) -> None:
        """Assign weights to the task, prune the others, and request retraining."""
        state, number = task.state, task.clock.task + 1
        for name, weight in task.model.weights.named().items():
            owner = state[f"owner.weights.{name}"]
            free = owner == 0
            if f"classes.{name}" in state:
                classes = state[f"classes.{name}"]
                mine = state["now"].gather(1, classes.flatten(1)).view_as(classes) & free
            elif weight[0].dim() < 2:
                mine = free
            else:
                mine = _largest(weight, free, 1 - torch.as_tensor(self.prune))
                weight.masked_fill_(free & ~mine, 0.0)
            owner.masked_fill_(mine, number)
        state["learning"].fill_(number)
        task.extend(self.retrain)

    def predict(self, query: Query) -> Tensor:
        """The logits with the weights of this task and of earlier ones."""

        def used(weight: Tensor, owner: Tensor) -> Tensor:
            return torch.where((owner > 0) & (owner <= query.task + 1), weight, 0.0)

        weights = query.model.weights.map(used, query.state.weights("owner"))
        return query.model.over(weights).logits(query.x)


def _largest(weight: Tensor, free: Tensor, share: Tensor) -> Tensor:
    """A mask of the `share` `[K]` of free weights `[K, ...]` with the largest magnitude."""
    size = weight.abs().masked_fill(~free, -1.0).flatten(1)
    order = size.sort(dim=1, descending=True, stable=True).indices
    rank = torch.arange(order.shape[1], device=order.device).expand_as(order)
    count = (free.flatten(1).sum(1) * share.to(free.device)).round()
    first = torch.zeros_like(order, dtype=torch.bool).scatter_(1, order, rank < count.view(-1, 1))
    return first.view(weight.shape)


class Settled(ByTask):
    """A wrapper that freezes the batch normalisation statistics after the first task.

    >>> net = Settled(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)))
    >>> net.begin(1)
    >>> net.net[0].training, net.net[1].training
    (True, False)
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.broadcasts_runs = getattr(net, "broadcasts_runs", False)

    def forward(self, x: Tensor) -> Tensor:
        """Compute the outputs of the wrapped network."""
        logits: Tensor = self.net(x)
        return logits

    def train(self, mode: bool = True) -> Self:
        """Set the mode of all layers; batch normalisation trains in the first task only."""
        super().train(mode)
        for layer in self.modules():
            if isinstance(layer, PartNorm | _BatchNorm):
                layer.train(mode and not self.task)
        return self
