"""SCR: Supervised Contrastive Replay (Mai et al., 2021)."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from recollect.core.dense import Dense
from recollect.core.losses import supervised_contrastive
from recollect.core.modules import Features, Head, maker, replace_head
from recollect.methods.base import Classifier, Query, Replay, Setup, Spec, Step, hyper
from recollect.methods.closed_form import by_distance, one_hot
from recollect.methods.setup import Build

ROWS = 1000


@dataclass(frozen=True)
class SCR(Classifier):
    """Learns features with a supervised contrastive loss, and predicts the nearest class mean.

    The last layer of the network is replaced by a projection head of two layers with `projection`
    outputs. The loss, with a `temperature`, is over the batch and the replayed examples, each
    without augmentation and in an augmented view. Predictions use the features before the
    projection head and the class means of all stored examples; both are scaled to length 1, unless
    `raw`.

    >>> SCR(temperature=0.07)
    SCR(temperature=0.07, projection=128, raw=0)
    """

    temperature: float | Tensor = hyper(0.1, "temperature of the contrastive loss")
    projection: int = hyper(128, "outputs of the projection head")
    raw: int = hyper(0, "1: do not scale features and means to length 1")

    name: ClassVar[str] = "scr"
    title: ClassVar[str] = "SCR"
    replay: ClassVar[Replay] = Replay(("x", "y"))

    def setup(self, spec: Spec) -> Setup:
        """A projection head in place of the last layer."""
        return Setup(network=lambda build: partial(projecting, build, self.projection))

    def loss(self, step: Step) -> Tensor:
        """The contrastive loss over batch and draw, plain and augmented, `[K]`."""
        past = step.draw()
        plain = torch.cat([step.plain(), step.plain(past)], 1)
        other = torch.cat([step.view(), step.view(past)], 1)
        points = normalize(torch.cat(step.net(plain, other), 1), dim=2)
        labels = torch.cat([step.y, past.y] * 2, 1)
        return supervised_contrastive(points, labels, self.temperature)

    def predict(self, query: Query) -> Tensor:
        """The negative distance to each class mean; very low for a class without examples."""
        filled = min(query.clock.seen, query.memory.capacity)
        stored = query.memory.fields().narrow(0, filled)
        parts = stored.x.split(ROWS, 1) if filled else ()  # type: ignore[no-untyped-call]
        features = self._scaled(query.model.features(query.x))
        member = one_hot(stored.y, query.classes, features.dtype)  # [K, m, C]
        member[:, list(query.clock.holes)] = 0
        means = features.new_zeros(len(features), query.classes, features.shape[2])
        for part, mine in zip(parts, member.split(ROWS, 1), strict=False):  # type: ignore[no-untyped-call]
            means += mine.mT @ self._scaled(query.model.features(query.inputs(part)))
        counts = member.sum(1)
        means = self._scaled(means / counts.clamp(min=1).unsqueeze(2))
        return by_distance(features, means, counts)

    def _scaled(self, features: Tensor) -> Tensor:
        return features if self.raw else normalize(features, dim=2)


def projecting(build: Build, width: int) -> nn.Module:
    """Build the network with a projection head."""
    module = maker(build)()
    features = Features(module)
    last, size = features.head, features.size
    kind = Dense if isinstance(last, Dense) else nn.Linear
    head = Head(kind(size, size), nn.ReLU(), kind(size, width))
    return replace_head(module, head)
