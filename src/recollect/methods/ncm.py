"""NCM: nearest class mean classifier (Mensink et al., 2013; Rebuffi et al., 2017)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from recollect.core.weights import State
from recollect.methods.base import ClosedForm, Query, Setup, Spec, Step, hyper
from recollect.methods.closed_form import (
    UNSEEN,
    add_to_means,
    from_means,
    known_only,
    linear_head,
    means_and_counts,
)


@dataclass(frozen=True)
class NCM(ClosedForm):
    """Predicts the class with the nearest mean feature, on a frozen network.

    The result does not depend on the order of the examples or the batch size.

    >>> NCM(normalise=1)
    NCM(normalise=1)
    """

    normalise: int = hyper(0, "1: scale features and means to length 1, as iCaRL does")

    name: ClassVar[str] = "ncm"
    title: ClassVar[str] = "NCM"

    def setup(self, spec: Spec) -> Setup:
        return Setup(state=lambda model: means_and_counts(spec, model.feature_size))

    def update(self, step: Step) -> Tensor:
        """Update the means; returns the mean squared distance to the previous means, `[K]`."""
        features = self._scaled(step.model.features(step.x).double())
        away, _ = from_means(features, step.y, step.state)
        add_to_means(features, step.y, step.state)
        return away.square().sum(2).mean(1).to(step.model.rate.dtype)

    def predict(self, query: Query) -> Tensor:
        """Minus half the squared distance to each class mean, `[K, n, C]`."""
        features = self._scaled(query.model.features(query.x).double())
        means = self._scaled(query.state["means"])
        scores = features @ means.mT - means.square().sum(2).unsqueeze(1) / 2
        shared = features.square().sum(2, keepdim=True) / 2
        return known_only(scores - shared, query.state, query.model)

    def export(self, module: nn.Module, state: State) -> nn.Module:
        means = self._scaled(state["means"])[0]
        bias = torch.where(state["counts"][0] == 0, UNSEEN, -means.square().sum(1) / 2)
        return linear_head(module, means.mT, bias, UnitLinear if self.normalise else nn.Linear)

    def _scaled(self, features: Tensor) -> Tensor:
        return normalize(features, dim=-1) if self.normalise else features


class UnitLinear(nn.Linear):
    """A linear layer on L2-normalised inputs.

    >>> layer = UnitLinear(4, 3).double()
    >>> x = torch.rand(5, 4, dtype=torch.float64)
    >>> torch.allclose(layer(x), layer(7 * x))
    True
    """

    def forward(self, x: Tensor) -> Tensor:
        """Compute outputs `[n, C]` of features `[n, D]`."""
        return super().forward(normalize(x, dim=-1))
