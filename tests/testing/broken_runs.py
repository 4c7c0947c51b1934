"""Methods whose runs depend on what they should not, or store what they should not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from tests.testing.broken import Plain, Replaying, breaks
from torch import Tensor

from recollect import Query, Setup, Spec, Step, cross_entropy


@breaks("steps", "the loss has the shape [] for 3 runs: return one value per run")
@dataclass(frozen=True)
class Averaging(Plain):
    """Has one loss for all."""

    def loss(self, step: Step) -> Tensor:
        return super().loss(step).sum()


@breaks("steps", "the loss has the shape [] for 3 runs: return one value per run")
@dataclass(frozen=True)
class Summing(Plain):
    """Learns as it should, and returns one loss for all."""

    def update(self, step: Step) -> Tensor:
        return super().update(step).sum()


@breaks("steps", "the loss does not depend on any trainable weight")
@dataclass(frozen=True)
class Aloof(Plain):
    """Cuts its loss off from the network."""

    def loss(self, step: Step) -> Tensor:
        return super().loss(step).detach()


@breaks(
    "finite", "the check failed with an error: AttributeError(\"'Step' object has no attribute 'z'"
)
@dataclass(frozen=True)
class Misspelt(Replaying):
    """Fails before it draws; that it never draws is not what is wrong with it."""

    def loss(self, step: Step) -> Tensor:
        wrong: Tensor = step.z  # type: ignore[attr-defined]
        return wrong


@breaks("finite", "after step 2, the loss is not finite: look for a logarithm")
@dataclass(frozen=True)
class Bottomless(Replaying):
    """Takes the logarithm of nothing, once there is a memory."""

    def loss(self, step: Step) -> Tensor:
        drawn = step.draw().y.shape[1]
        return Plain.loss(self, step) + torch.tensor(1.0 if not drawn else 0.0).log()


@breaks("steps", "the state 'n' must be changed in place, so that it is saved with the run")
@dataclass(frozen=True)
class Rebinding(Plain):
    """Puts another tensor where its state was."""

    def setup(self, spec: Spec) -> Setup:
        return Setup(state=lambda model: {"n": torch.zeros(spec.runs)})

    def loss(self, step: Step) -> Tensor:
        step.state["n"] = step.state["n"] + 1
        return super().loss(step)


@breaks("steps", "the state 'n' of Plain was set to a value with a gradient: detach")
@dataclass(frozen=True)
class Attached(Plain):
    """Averages its loss, and the gradient with it."""

    def setup(self, spec: Spec) -> Setup:
        return Setup(state=lambda model: {"n": torch.zeros_like(model.ones)})

    def loss(self, step: Step) -> Tensor:
        loss = super().loss(step)
        step.state["n"].mul_(0.9).add_(loss)
        return loss


@breaks("finite", "no weight has changed")
@dataclass(frozen=True)
class Stubborn(Plain):
    """Has a loss, and does not descend on it."""

    def update(self, step: Step) -> Tensor:
        return self.loss(step).detach()


@breaks("draws", "the state 'count' of Plain has the shape [1] for 3 runs: make it [K, ...]")
@dataclass(frozen=True)
class Sharing(Plain):
    """Has one state for all."""

    def setup(self, spec: Spec) -> Setup:
        return Setup(state=lambda model: {"count": torch.zeros(1)})


@breaks("generator", "it draws from torch's global generator: use step.random(n)")
@dataclass(frozen=True)
class Dicing(Plain):
    """Weighs its loss at random."""

    def loss(self, step: Step) -> Tensor:
        return super().loss(step) * torch.rand(len(step.y))


@breaks("generator", "it draws from numpy's global generator")
@dataclass(frozen=True)
class DicingElsewhere(Plain):
    """Weighs its loss at random."""

    def loss(self, step: Step) -> Tensor:
        return super().loss(step) * np.random.rand()


@breaks("generator", "it depends on the state of a global random generator")
@dataclass(frozen=True)
class DicingInSecret(Plain):
    """Puts the generator back, but has looked at it."""

    def loss(self, step: Step) -> Tensor:
        with torch.random.fork_rng(devices=[]):
            return super().loss(step) * torch.rand(len(step.y))


@breaks("seeds", "the same runs give another result the second time")
@dataclass(frozen=True)
class Ageing(Plain):
    """Learns less and less, also in the next fleet."""

    steps: ClassVar[dict[str, int]] = {"taken": 0}

    def loss(self, step: Step) -> Tensor:
        self.steps["taken"] += 1
        return super().loss(step) / self.steps["taken"]


@breaks("prediction", "a prediction changes the run: state.asked differs by")
@dataclass(frozen=True)
class Vain(Plain):
    """Counts how often it is asked."""

    def setup(self, spec: Spec) -> Setup:
        return Setup(state=lambda model: {"asked": torch.zeros(spec.runs)})

    def predict(self, query: Query) -> Tensor:
        query.state["asked"].add_(1)
        return super().predict(query)


@breaks("prediction", "a second call of `predict` differs: it must be a pure function")
@dataclass(frozen=True)
class Fickle(Plain):
    """Predicts something else every time."""

    asked: ClassVar[dict[str, int]] = {"times": 0}

    def predict(self, query: Query) -> Tensor:
        self.asked["times"] += 1
        return super().predict(query) + self.asked["times"]


@breaks("prediction", "its predictions are not numbers (NaN), so the first class is predicted")
@dataclass(frozen=True)
class Empty(Plain):
    """Divides by the number of examples of every class, which may be zero."""

    def predict(self, query: Query) -> Tensor:
        return query.model.logits(query.x) * torch.nan


@breaks(
    "prediction", "its predictions have the shape [3, 12]: return a score for every run, example"
)
@dataclass(frozen=True)
class Decided(Plain):
    """Gives the class, and not the scores."""

    def predict(self, query: Query) -> Tensor:
        return super().predict(query).argmax(2)


@breaks("bounded", "bytes more: use tensors of fixed size")
@dataclass(frozen=True)
class Hoarding(Plain):
    """Keeps everything."""

    seen: ClassVar[list[Tensor]] = []

    def loss(self, step: Step) -> Tensor:
        self.seen.append(step.x.clone())
        return super().loss(step)


@breaks("bounded", "its class or instance has a container that grows with every step")
@dataclass(frozen=True)
class Noting(Plain):
    """Notes every step."""

    notes: ClassVar[list[int]] = []

    def loss(self, step: Step) -> Tensor:
        self.notes.append(1)
        return super().loss(step)


@breaks("learns", "check the sign of the loss")
@dataclass(frozen=True)
class Contrary(Plain):
    """Goes uphill."""

    def loss(self, step: Step) -> Tensor:
        return -super().loss(step)


@breaks("targets", "it fails on the target 'regression' (")
@dataclass(frozen=True)
class ReadsClasses(Plain):
    """Takes the targets for numbers of classes, and does not say so."""

    def loss(self, step: Step) -> Tensor:
        return cross_entropy(step.net(step.x)[0], step.y)
