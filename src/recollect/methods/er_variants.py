"""ER with other ways to fill its memory: "On Tiny Episodic Memories" (Chaudhry et al., 2019)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recollect.core.model import Model
from recollect.errors import InputError
from recollect.memory import ClassRing, Hybrid, keep_closest, nearest
from recollect.methods.base import Method, Replay, Setup, SlotState, Spec, Step, hyper
from recollect.methods.er import ER

FAR = 1e18  # features that are closer to nothing: such a slot is filled first


def _loss(method: Method, step: Step) -> Tensor:
    """ER's mean loss over the batch and those replayed examples that are valid, `[K]`."""
    past = step.draw()
    (logits,) = step.net(torch.cat([step.x, past.x], 1))
    labels = torch.cat([step.y, past.y], 1)
    each = step.model.criterion.each(logits, labels)
    valid = torch.cat([torch.ones_like(step.y, dtype=torch.bool), past.valid], 1)
    return torch.where(valid, each, 0).sum(1) / valid.sum(1)


@dataclass(frozen=True)
class ERRing(Method):
    """ER with the last examples of every class, an equal share each.

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
class ERKMeans(Method):
    """ER with the examples closest to centres that online k-means finds for every class.

    A class has as many centres in feature space as slots, and its first examples are where they
    start. An example comes to the nearest centre of its class; the centre is the mean of what came
    to it. A batch is taken as a whole: all of it comes to centres, and then the centres move.

    >>> ERKMeans.replay.names
    ('x', 'y')
    """

    name: ClassVar[str] = "er-kmeans"
    title: ClassVar[str] = "ER (k-means)"
    replay: ClassVar[Replay] = Replay(("x", "y"))
    loss = _loss

    def setup(self, spec: Spec) -> Setup:
        """The centres, how many examples came to each, and the features of what is stored."""
        share = _share(spec)

        def state(model: Model) -> dict[str, Tensor | SlotState]:
            size = (spec.runs, spec.capacity + 1, model.feature_size)
            rows = torch.zeros(size, dtype=torch.float64)
            count = torch.zeros(spec.runs, spec.classes, share, dtype=torch.int64)
            return {"centre": SlotState(rows), "count": count, "kept": SlotState(rows.clone(), FAR)}

        policy = ClassRing(spec.capacity, renews=False)
        return Setup(policy=policy, state=state)

    def update(self, step: Step) -> Tensor:
        """Descend as ER does, then choose what to store by the features of the new networks."""
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
class ERMoF(Method):
    """ER with the examples of every class that are closest to its mean of features.

    The mean is over all examples of the class so far, with the features they had when they came. A
    batch is taken as a whole: first the means move, then the closest are chosen.

    >>> ERMoF.replay.names
    ('x', 'y')
    """

    name: ClassVar[str] = "er-mof"
    title: ClassVar[str] = "ER (mean of features)"
    replay: ClassVar[Replay] = Replay(("x", "y"))
    loss = _loss

    def setup(self, spec: Spec) -> Setup:
        """The mean of every class and of how many it is, and the features of what is stored."""

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
        """Descend as ER does, then choose what to store by the features of the new networks."""
        loss = super().update(step)
        centre, count, kept = (step.state[name] for name in ("centre", "count", "kept"))
        features = step.model.features(step.x).double()
        share = (kept.shape[1] - 1) // count.shape[1]
        step.store_at(keep_closest(features, step.y, share, centre, count, kept))
        return loss


@dataclass(frozen=True)
class ERHybrid(Method):
    """ER with a reservoir that changes to rings before it loses sight of a class.

    When the reservoir would leave a class with less than `least` examples, every class gets an
    equal share, in which its newest examples replace its oldest. A batch is taken as a whole.

    >>> ERHybrid(least=2)
    ERHybrid(least=2)
    """

    least: int = hyper(1, "examples of a class below which the reservoir becomes a ring")

    name: ClassVar[str] = "er-hybrid"
    title: ClassVar[str] = "ER (hybrid)"
    replay: ClassVar[Replay] = Replay(("x", "y"))

    def setup(self, spec: Spec) -> Setup:
        """A reservoir; the labels of what is stored, and the rings."""
        _share(spec)

        def state(model: Model) -> dict[str, Tensor | SlotState]:
            room = Hybrid.room(spec.runs, spec.capacity, spec.classes)
            return {**room, "label": SlotState(room["label"], spec.classes)}

        return Setup(state=state)

    def loss(self, step: Step) -> Tensor:
        step.store_at(Hybrid(**step.state).slots_for(step.slots, step.y, self.least))
        return ER().loss(step)


def _share(spec: Spec) -> int:
    """How many slots a class has."""
    if spec.capacity < spec.classes:
        raise InputError(
            f"this memory stores examples of every class: it must have room for "
            f"{spec.classes}, not {spec.capacity}"
        )
    return spec.capacity // spec.classes
