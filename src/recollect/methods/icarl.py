"""iCaRL: Incremental Classifier and Representation Learning (Rebuffi et al., 2017)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from recollect.core.weights import Weights
from recollect.errors import InputError
from recollect.memory import Rule, TaskShares
from recollect.memory.herding import herd, unit
from recollect.methods.boundary import About, Boundary
from recollect.methods.kept import keep_network, room_for_network
from recollect.methods.method import Method
from recollect.methods.step import Step

__all__ = ["ICaRL"]

ROWS = 1000
UNSEEN = -1e9
EXACT = "donot_use_mm_for_euclid_dist"  # products of matrices would lose small distances


@dataclass(frozen=True)
class ICaRL(Method):
    """Learns features, and names the class whose exemplars have the nearest mean feature.

    Exemplars, an equal share of the memory for every class, arrive again with each task. Every
    class is a yes or no of its own: for those of the task the label says which, for older ones
    what the network answered before the task. `wd` weighs the squared norm of the weights.

    `recollect reproduce seq-mnist --methods icarl` makes its rows of the paper's table.

    >>> ICaRL(wd=1e-5)
    ICaRL(wd=1e-05)
    >>> ICaRL.mixes_memory
    True
    """

    wd: float | Tensor = 0.0

    name: ClassVar[str] = "icarl"
    title: ClassVar[str] = "iCaRL"
    remembers: ClassVar[tuple[str, ...]] = ("x", "y")
    needs_boundaries: ClassVar[bool] = True
    revisits: ClassVar[bool] = True
    scores_features: ClassVar[bool] = True
    mixes_memory: ClassVar[bool] = True

    def learn(self, step: Step) -> Tensor:
        """A step on classification, distillation and the norm of the weights; their sum `[K]`."""
        (logits,) = step.net(step.x)
        label = _one_hot(step.y, logits.shape[2], logits.dtype)
        before = step.look(step.x, "old").sigmoid()
        answer = torch.where(step.own["now"].unsqueeze(1), label, before)
        surprise = binary_cross_entropy_with_logits(logits, answer, reduction="none")
        seen = step.own["seen"].to(logits.dtype)
        loss = (surprise.mean(1) * seen).sum(1) / seen.sum(1).clamp(min=1)
        gradient = step.gradient(loss)
        trained = {n: w for n, w in step.weights.named().items() if n in gradient.parts}
        decayed, weight = Weights(trained), torch.as_tensor(self.wd)
        loss = loss.detach() + weight * decayed.dot(decayed)
        step.descend(decayed, 2 * weight)
        step.descend(gradient)
        return loss

    def rule(self, capacity: int) -> Rule:
        """Nothing is kept before a task is over, and nothing is drawn."""
        return TaskShares(capacity)

    def own(self, about: About) -> dict[str, Tensor]:
        """The old network, and for every class: is it new, was it seen, its exemplars, their mean.

        `exemplars` counts them: they lie one class after the other, the most important first.
        """
        if about.capacity < about.classes:
            raise InputError(
                f"iCaRL keeps at least one exemplar of each of the {about.classes} classes: "
                f"a buffer of {about.capacity} is too small"
            )
        some = next(iter(about.weights.values()))
        size = (about.runs, about.classes)
        return {
            **room_for_network("old", about.weights, about.buffers),
            "now": torch.zeros(size, dtype=torch.bool),
            "seen": torch.zeros(size, dtype=torch.bool),
            "exemplars": torch.zeros(size, dtype=torch.int64),
            "means": torch.zeros(*size, about.features, dtype=some.dtype),
        }

    def start_task(self, boundary: Boundary) -> None:
        """Note the classes that are new."""
        _met(boundary)

    def end_task(self, boundary: Boundary) -> None:
        """Choose exemplars of the new classes, drop the last of the others, and find the means.

        A class that comes again counts as new, and its exemplars are chosen afresh.
        """
        own, memory = boundary.own, boundary.memory
        labels = _met(boundary)
        share = memory.capacity // int(own["seen"][0].sum())
        stay = self._staying(boundary, share)
        old = memory.read(memory.rows(boundary.for_all(stay)))
        x, y = boundary.examples(_chosen(boundary, labels, share))
        x, y = torch.cat([old.x, x], 1), torch.cat([old.y, y], 1)
        slots = boundary.for_all(torch.arange(y.shape[1]))
        memory.write(memory.rows(slots), {"x": x, "y": y})
        own["exemplars"].zero_().scatter_add_(1, y, torch.ones_like(y))
        features = unit(boundary.features(x))
        member = _one_hot(y, own["means"].shape[1], features.dtype)
        own["means"].copy_(unit(member.mT @ features))
        keep_network(own, "old", boundary.weights, boundary.buffers)

    def kept(self, own: Mapping[str, Tensor]) -> int:
        """All exemplars."""
        return int(own["exemplars"][0].sum())

    def scores(self, features: Tensor, logits: Tensor, own: Mapping[str, Tensor]) -> Tensor:
        """Minus the distance to the mean of each class; very low for one without exemplars."""
        distance = torch.cdist(unit(features), own["means"], compute_mode=EXACT)
        return (-distance).masked_fill(own["exemplars"].unsqueeze(1) == 0, UNSEEN)

    def _staying(self, boundary: Boundary, share: int) -> Tensor:
        """The slots of the first exemplars of every class that is not new."""
        y = boundary.memory.fields().y[0, : self.kept(boundary.own)]
        older = (boundary.own["exemplars"][0] > 0) & ~boundary.own["now"][0]
        slots = [(y == label).nonzero().flatten()[:share] for label in older.nonzero().flatten()]
        return torch.cat([*slots, y[:0]])


def _chosen(boundary: Boundary, labels: Tensor, share: int) -> Tensor:
    """The places `[K, n]` of the exemplars of the new classes, one class after the other."""
    everything = boundary.for_all(torch.arange(boundary.count))
    parts = everything.split(ROWS, 1)  # type: ignore[no-untyped-call]
    looked = [boundary.features(boundary.examples(places)[0]) for places in parts]
    features = unit(torch.cat(looked, 1))
    chosen = []
    for label in boundary.own["now"][0].nonzero().flatten():
        places = (labels == label).nonzero()[:, 1].view(len(labels), -1)
        mine = features.gather(1, places.unsqueeze(2).expand(-1, -1, features.shape[2]))
        chosen.append(places.gather(1, herd(mine, min(share, places.shape[1]))))
    return torch.cat(chosen, 1)


def _one_hot(labels: Tensor, classes: int, dtype: torch.dtype) -> Tensor:
    """A one for the class of each label `[K, n]` and zeros for the others, `[K, n, C]`."""
    return (labels.unsqueeze(2) == torch.arange(classes, device=labels.device)).to(dtype)


def _met(boundary: Boundary) -> Tensor:
    """The labels `[K, n]` of a task, whose classes are noted as new."""
    labels, own = boundary.labels(), boundary.own
    ordered = labels.sort(1).values
    if not torch.equal(ordered, ordered[:1].expand_as(ordered)):
        raise InputError(
            "iCaRL shares its memory among classes: all runs of a fleet must meet the same "
            "classes in a task, each as often; train others in a second fleet"
        )
    own["now"].zero_().scatter_(1, labels, torch.ones_like(labels, dtype=torch.bool))
    own["seen"].logical_or_(own["now"])
    return labels
