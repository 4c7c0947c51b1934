"""SCR: supervised contrastive replay (Mai et al., 2021)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from recollect import Method, Query, Replay, Setup, Spec, Step, hyper
from recollect.core.dense import Dense
from recollect.methods.setup import Build

__all__ = ["SCR"]

UNKNOWN = -1e9


@dataclass(frozen=True)
class SCR(Method):
    """Learns features by a contrastive loss, and predicts the class with the nearest mean.

    The last layer of the network is replaced by a projection. The loss compares the projections of
    the batch and of stored examples, each in two views. The means are those of the features of
    all stored examples when a prediction is asked for: no task boundary is needed.
    """

    temperature: float | Tensor = hyper(0.2, "temperature of the contrastive loss")
    width: int = hyper(16, "outputs of the projection")

    name: ClassVar[str] = "scr"
    title: ClassVar[str] = "SCR"
    replay: ClassVar[Replay] = Replay(("x", "y"))

    def setup(self, spec: Spec) -> Setup:
        """A projection in place of the last layer."""
        return Setup(network=lambda build: projecting(build, self.width))

    def loss(self, step: Step) -> Tensor:
        """The supervised contrastive loss over the batch and a draw, in two views each."""
        past = step.draw()
        views = [step.x, past.x, step.view(), step.view(past)]
        z = normalize(torch.cat(step.net(*views), 1), dim=2)
        y = torch.cat([step.y, past.y] * 2, 1)
        heat = torch.as_tensor(self.temperature).view(-1, 1, 1)
        itself = torch.eye(y.shape[1], dtype=torch.bool, device=y.device)
        similar = (z @ z.mT / heat).masked_fill(itself, torch.finfo(z.dtype).min)
        same = (y[:, :, None] == y[:, None, :]) & ~itself
        log_share = torch.where(same, similar.log_softmax(2), 0.0)
        return -(log_share.sum(2) / same.sum(2).clamp(min=1)).mean(1)

    def predict(self, query: Query) -> Tensor:
        """Minus the distance to the mean feature of every class among the stored examples."""
        filled = min(query.clock.seen, query.memory.capacity)
        stored = query.memory.fields().narrow(0, filled)
        classes = torch.arange(query.classes, device=query.x.device)
        member = (stored.y.unsqueeze(2) == classes).to(query.model.rate.dtype)  # [K, m, C]
        features = normalize(query.model.features(query.x), dim=2)
        if not filled:
            return features.new_full((*features.shape[:2], query.classes), UNKNOWN)
        known = normalize(query.model.features(query.inputs(stored.x)), dim=2)
        means = normalize(member.mT @ known, dim=2)
        return (-torch.cdist(features, means)).masked_fill(member.sum(1)[:, None] == 0, UNKNOWN)


def projecting(build: Build, width: int) -> Callable[[], nn.Module]:
    """A function that makes the network with a linear projection as its last layer."""

    def made() -> nn.Module:
        module = copy.deepcopy(build) if isinstance(build, nn.Module) else build()
        path, last = [
            (name, layer)
            for name, layer in module.named_modules()
            if isinstance(layer, nn.Linear | Dense)
        ][-1]
        owner, _, name = path.rpartition(".")
        size = last.weight.shape[0 if isinstance(last, Dense) else 1]
        setattr(module.get_submodule(owner), name, type(last)(size, width))
        return module

    return made
