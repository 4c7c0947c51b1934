"""ER with other ways to fill its memory: "On Tiny Episodic Memories" (Chaudhry et al., 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recollect.errors import InputError
from recollect.memory import ClassRing, Hybrid, keep_closest, nearest
from recollect.methods.boundary import About
from recollect.methods.er import ER
from recollect.methods.method import Method
from recollect.methods.step import Step

__all__ = ["ERHybrid", "ERKMeans", "ERMoF", "ERRing"]


@dataclass(frozen=True)
class ERRing(Method):
    """ER with the last examples of every class, an equal share each.

    `recollect run seq-mnist er-ring --buffer 20`

    >>> ERRing().rule(20)
    ClassRing(capacity=20, renews=True)
    """

    name: ClassVar[str] = "er-ring"
    title: ClassVar[str] = "ER (ring)"
    remembers: ClassVar[tuple[str, ...]] = ("x", "y")
    draws: ClassVar[int] = 1

    def rule(self, capacity: int) -> ClassRing:
        """The newest of a class replaces its oldest."""
        return ClassRing(capacity)

    def own(self, about: About) -> dict[str, Tensor]:
        """Nothing, if every class has a slot."""
        _share(about)
        return {}

    def loss(self, step: Step) -> Tensor:
        """As in ER."""
        return _loss(step)


@dataclass(frozen=True)
class ERKMeans(Method):
    """ER with the examples closest to centres that online k-means finds for every class.

    A class has as many centres in feature space as slots, and its first examples are where they
    start. An example comes to the nearest centre of its class; the centre is the mean of what came
    to it. A batch is taken as a whole: all of it comes to centres, and then the centres move.

    `recollect run seq-mnist er-kmeans --buffer 20`

    >>> ERKMeans().rule(20)
    ClassRing(capacity=20, renews=False)
    """

    name: ClassVar[str] = "er-kmeans"
    title: ClassVar[str] = "ER (k-means)"
    remembers: ClassVar[tuple[str, ...]] = ("x", "y")
    draws: ClassVar[int] = 1
    places: ClassVar[bool] = True

    def rule(self, capacity: int) -> ClassRing:
        """The first of a class fill its slots."""
        return ClassRing(capacity, renews=False)

    def own(self, about: About) -> dict[str, Tensor]:
        """The centres, how many examples came to each, and the features of what is kept."""
        rows = torch.zeros(about.runs, about.capacity + 1, about.features, dtype=torch.float64)
        count = torch.zeros(about.runs, about.classes, _share(about), dtype=torch.int64)
        return {"centre": rows, "count": count, "kept": rows.clone()}

    def learn(self, step: Step) -> Tensor:
        """Descend as ER does, then choose what to keep by the features of the new networks."""
        loss = super().learn(step)
        centre, count, kept = (step.own[name] for name in ("centre", "count", "kept"))
        features = step.features(step.x).double()
        share, capacity = count.shape[2], kept.shape[1] - 1
        centre.scatter_(1, step.slots[..., None].expand_as(features), features)
        near = nearest(features, step.y * share, share, centre)
        group = torch.where(step.slots < capacity, step.slots, near)
        step.place(keep_closest(features, group, 1, centre, count.flatten(1), kept))
        return loss

    def loss(self, step: Step) -> Tensor:
        """As in ER."""
        return _loss(step)


@dataclass(frozen=True)
class ERMoF(Method):
    """ER with the examples of every class that are closest to its mean of features.

    The mean is over all examples of the class so far, with the features they had when they came. A
    batch is taken as a whole: first the means move, then the closest are chosen.

    `recollect run seq-mnist er-mof --buffer 20`

    >>> ERMoF().rule(20)
    ClassRing(capacity=20, renews=False)
    """

    name: ClassVar[str] = "er-mof"
    title: ClassVar[str] = "ER (mean of features)"
    remembers: ClassVar[tuple[str, ...]] = ("x", "y")
    draws: ClassVar[int] = 1
    places: ClassVar[bool] = True

    def rule(self, capacity: int) -> ClassRing:
        """The first of a class fill its slots."""
        return ClassRing(capacity, renews=False)

    def own(self, about: About) -> dict[str, Tensor]:
        """The mean of every class and of how many it is, and the features of what is kept."""
        _share(about)
        centre = torch.zeros(about.runs, about.classes, about.features, dtype=torch.float64)
        return {
            "centre": centre,
            "count": torch.zeros(about.runs, about.classes, dtype=torch.int64),
            "kept": centre.new_zeros(about.runs, about.capacity + 1, about.features),
        }

    def learn(self, step: Step) -> Tensor:
        """Descend as ER does, then choose what to keep by the features of the new networks."""
        loss = super().learn(step)
        centre, count, kept = (step.own[name] for name in ("centre", "count", "kept"))
        features = step.features(step.x).double()
        share = (kept.shape[1] - 1) // count.shape[1]
        step.place(keep_closest(features, step.y, share, centre, count, kept))
        return loss

    def loss(self, step: Step) -> Tensor:
        """As in ER."""
        return _loss(step)


@dataclass(frozen=True)
class ERHybrid(Method):
    """ER with a reservoir that changes to rings before it loses sight of a class.

    When the reservoir would leave a class with less than `least` examples, every class gets an
    equal share, in which its newest examples replace its oldest. A batch is taken as a whole.

    `recollect run seq-mnist er-hybrid --buffer 20`

    >>> ERHybrid(least=2).rule(20)
    Reservoir(capacity=20)
    """

    least: int = 1

    name: ClassVar[str] = "er-hybrid"
    title: ClassVar[str] = "ER (hybrid)"
    remembers: ClassVar[tuple[str, ...]] = ("x", "y")
    draws: ClassVar[int] = 1
    shaping: ClassVar[tuple[str, ...]] = ("least",)
    places: ClassVar[bool] = True

    def own(self, about: About) -> dict[str, Tensor]:
        """The labels of what is kept, and the rings."""
        _share(about)
        return Hybrid.room(about.runs, about.capacity, about.classes)

    def loss(self, step: Step) -> Tensor:
        """That of ER."""
        step.place(Hybrid(**step.own).place(step.slots, step.y, self.least))
        return ER().loss(step)


def _loss(step: Step) -> Tensor:
    """The mean cross-entropy over the batch and those replayed examples that count, `[K]`."""
    past = step.draw()
    (logits,) = step.net(torch.cat([step.x, past.x], 1))
    labels = torch.cat([step.y, past.y], 1)
    surprise = -logits.log_softmax(2).gather(2, labels.unsqueeze(2)).squeeze(2)
    counts = torch.cat([torch.ones_like(step.y, dtype=torch.bool), past.counts], 1)
    return torch.where(counts, surprise, 0).sum(1) / counts.sum(1)


def _share(about: About) -> int:
    """How many slots a class has."""
    if about.capacity < about.classes:
        raise InputError(
            f"this way to remember keeps examples of every class: the memory must have room for "
            f"{about.classes}, not {about.capacity}"
        )
    return about.capacity // about.classes
