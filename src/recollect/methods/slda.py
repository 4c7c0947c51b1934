"""SLDA: streaming linear discriminant analysis on fixed features (Hayes and Kanan, 2020)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from recollect.core.model import Model
from recollect.core.weights import State
from recollect.methods.base import ClosedForm, Query, Setup, Spec, Step, hyper
from recollect.methods.closed_form import (
    UNSEEN,
    Solved,
    add_to_means,
    from_means,
    known_only,
    linear_head,
    means_and_counts,
    solution,
)

_solved = Solved[tuple[Tensor, Tensor]]()


@dataclass(frozen=True)
class SLDA(ClosedForm):
    """Linear discriminant analysis with running class means and a shared covariance.

    The network is not trained. The covariance is shrunk towards the identity. Examples of a batch
    are added one after the other, so the result does not depend on the batch size.

    >>> SLDA(shrinkage=1e-3)
    SLDA(shrinkage=0.001, exact=0)
    """

    shrinkage: float | Tensor = hyper(1e-4, "shrinkage of the covariance to the identity, above 0")
    exact: int = hyper(0, "1: exact within-class covariance instead of the paper's recursion")

    name: ClassVar[str] = "slda"
    title: ClassVar[str] = "SLDA"

    def setup(self, spec: Spec) -> Setup:
        def state(model: Model) -> dict[str, Tensor]:
            size = model.feature_size
            covariance = torch.zeros(spec.runs, size, size, dtype=torch.float64)
            return {**means_and_counts(spec, size), "covariance": covariance}

        return Setup(state=state)

    def update(self, step: Step) -> Tensor:
        """Update covariance and means; returns the mean squared distance to class means, `[K]`."""
        features = step.model.features(step.x).double()
        away, of_class = from_means(features, step.y, step.state)
        batch = away.shape[1]
        seen = step.state["counts"].sum(1)[:, None]
        of_all = seen + torch.arange(batch, device=seen.device)  # examples before each, [K, B]
        before = of_class if self.exact else of_all
        weighted = away * (before / (before + 1)).unsqueeze(2)
        covariance = step.state["covariance"]
        covariance.mul_(seen.unsqueeze(2)).baddbmm_(weighted.mT, away)
        covariance.div_((seen + batch).unsqueeze(2))
        add_to_means(features, step.y, step.state)
        return away.square().sum(2).mean(1).to(step.model.rate.dtype)

    def predict(self, query: Query) -> Tensor:
        """The discriminant scores of the classes, `[K, n, C]`."""
        steps, covariance = query.clock.steps, query.state["covariance"]
        weights, offsets = _solved(self, covariance, steps, lambda: self._linear(query.state))
        scores = query.model.features(query.x).double() @ weights - offsets.unsqueeze(1)
        return known_only(scores, query.state, query.model)

    def export(self, module: nn.Module, state: State) -> nn.Module:
        weights, offsets = self._linear(state)
        bias = torch.where(state["counts"] == 0, UNSEEN, -offsets)
        return linear_head(module, weights[0], bias[0])

    def _linear(self, state: State) -> tuple[Tensor, Tensor]:
        """The weights `[K, D, C]` and offsets `[K, C]` of the linear discriminants."""
        means, covariance = state["means"].mT, state["covariance"]
        share = torch.as_tensor(self.shrinkage, dtype=means.dtype, device=means.device)
        kept = (1 - share).view(-1, 1, 1) * covariance
        weights = solution(kept, share, means, "shrinkage")
        return weights, (means * weights).sum(1) / 2
