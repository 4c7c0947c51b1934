"""ER with other memory policies: "On Tiny Episodic Memories" (Chaudhry et al., 2019)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recollect.core.model import Model
from recollect.errors import InputError
from recollect.memory import ClassRing, Hybrid, keep_closest, nearest
from recollect.methods.base import (
    Classifier,
    Method,
    Replay,
    Setup,
    SlotState,
    Spec,
    Step,
    hyper,
)  # fmt: skip
from recollect.methods.er import ER

FAR = 1e18  # features of an empty slot: the farthest from every centre, so filled first


def _loss(method: Method, step: Step) -> Tensor:
    """ER's mean loss over the batch and the valid replayed examples, `[K]`."""
    past = step.draw()
    (logits,) = step.net(torch.cat([step.x, past.x], 1))
    labels = torch.cat([step.y, past.y], 1)
    each = step.model.criterion.each(logits, labels)
    valid = torch.cat([torch.ones_like(step.y, dtype=torch.bool), past.valid], 1)
    return torch.where(valid, each, 0).sum(1) / valid.sum(1)


@dataclass(frozen=True)
class ERRing(Classifier):
    """ER with a ring buffer for every class, which stores its most recent examples.

    >>> ERRing.replay.names
    ('x', 'y')
    """

    name: ClassVar[str] = "er-ring"
    title: ClassVar[str] = "ER (ring)"
    replay: ClassVar[Replay] = Replay(("x", "y"))
    loss = _loss

    def setup(self, spec: Spec) -> Setup:
        _share(spec)
        return Setup(policy=ClassRing(spec.capacity))


@dataclass(frozen=True)
class ERKMeans(Classifier):
    """ER with the examples closest to the centres of an online k-means of every class.

    A class has one centre in feature space per slot, initialised with its first examples. An
    example is assigned to the nearest centre of its class, which is the mean of its examples. All
    examples of a batch are assigned before the centres are updated.

    >>> ERKMeans.replay.names
    ('x', 'y')
    """

    name: ClassVar[str] = "er-kmeans"
    title: ClassVar[str] = "ER (k-means)"
    replay: ClassVar[Replay] = Replay(("x", "y"))
    loss = _loss

    def setup(self, spec: Spec) -> Setup:
        """The centres, their numbers of examples, and the features of the stored examples."""
        share = _share(spec)

        def state(model: Model) -> dict[str, Tensor | SlotState]:
            size = (spec.runs, spec.capacity + 1, model.feature_size)
            rows = torch.zeros(size, dtype=torch.float64)
            count = torch.zeros(spec.runs, spec.classes, share, dtype=torch.int64)
            return {"centre": SlotState(rows), "count": count, "kept": SlotState(rows.clone(), FAR)}

        policy = ClassRing(spec.capacity, renews=False)
        return Setup(policy=policy, state=state)

    def update(self, step: Step) -> Tensor:
        """Take a step of ER, then select examples to store by the features after the step."""
        loss = super().update(step)
        centre, count, kept = (step.state[name] for name in ("centre", "count", "kept"))
        features = step.model.features(step.x).double()
        share, capacity = count.shape[2], kept.shape[1] - 1
        centre.scatter_(1, step.slots[..., None].expand_as(features), features)
        near = nearest(features, step.y * share, share, centre)
        group = torch.where(step.slots < capacity, step.slots, near)
        step.store_at(keep_closest(features, group, 1, centre, count.flatten(1), kept))
        return loss


@dataclass(frozen=True)
class ERMoF(Classifier):
    """ER with the examples of every class that are closest to its mean feature.

    The mean is over all examples of the class so far, with their features at arrival. The means are
    updated with the whole batch before the closest examples are selected.

    >>> ERMoF.replay.names
    ('x', 'y')
    """

    name: ClassVar[str] = "er-mof"
    title: ClassVar[str] = "ER (mean of features)"
    replay: ClassVar[Replay] = Replay(("x", "y"))
    loss = _loss

    def setup(self, spec: Spec) -> Setup:
        """The mean and count of every class, and the features of the stored examples."""

        def state(model: Model) -> dict[str, Tensor | SlotState]:
            size = (spec.runs, spec.classes, model.feature_size)
            centre = torch.zeros(size, dtype=torch.float64)
            kept = centre.new_zeros(spec.runs, spec.capacity + 1, model.feature_size)
            return {
                "centre": centre,
                "count": torch.zeros(spec.runs, spec.classes, dtype=torch.int64),
                "kept": SlotState(kept, FAR),
            }

        _share(spec)
        policy = ClassRing(spec.capacity, renews=False)
        return Setup(policy=policy, state=state)

    def update(self, step: Step) -> Tensor:
        """Take a step of ER, then select examples to store by the features after the step."""
        loss = super().update(step)
        centre, count, kept = (step.state[name] for name in ("centre", "count", "kept"))
        features = step.model.features(step.x).double()
        share = (kept.shape[1] - 1) // count.shape[1]
        step.store_at(keep_closest(features, step.y, share, centre, count, kept))
        return loss


@dataclass(frozen=True)
class ERHybrid(Classifier):
    """ER with a reservoir that switches to class rings before it loses a class.

    When the reservoir would leave a class with fewer than `least` examples, every class gets a ring
    buffer of equal size. Whole batches are processed at once.

    >>> ERHybrid(least=2)
    ERHybrid(least=2)
    """

    least: int = hyper(1, "minimum examples per class before the reservoir becomes class rings")

    name: ClassVar[str] = "er-hybrid"
    title: ClassVar[str] = "ER (hybrid)"
    replay: ClassVar[Replay] = Replay(("x", "y"))

    def setup(self, spec: Spec) -> Setup:
        """A reservoir, with the labels of the stored examples and the state of the rings."""
        _share(spec)

        def state(model: Model) -> dict[str, Tensor | SlotState]:
            room = Hybrid.room(spec.runs, spec.capacity, spec.classes)
            return {**room, "label": SlotState(room["label"], spec.classes)}

        return Setup(state=state)

    def loss(self, step: Step) -> Tensor:
        step.store_at(Hybrid(**step.state).slots_for(step.slots, step.y, self.least))
        return ER().loss(step)


def _share(spec: Spec) -> int:
    """The number of slots per class."""
    if spec.capacity < spec.classes:
        raise InputError(
            f"this memory stores examples of every class: its capacity must be at least "
            f"{spec.classes}, the number of classes, not {spec.capacity}"
        )
    return spec.capacity // spec.classes
