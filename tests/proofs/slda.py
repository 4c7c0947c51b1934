"""SLDA: streaming linear discriminant analysis on fixed features (Hayes and Kanan, 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recollect import Method, Needs, Query, Setup, Spec, Step, hyper
from recollect.core.model import Model

__all__ = ["SLDA"]

UNKNOWN = -1e9


@dataclass(frozen=True)
class SLDA(Method):
    """Keeps the mean feature of every class and their common covariance; weights do not change.

    A prediction is that of linear discriminant analysis, with the covariance shrunk towards the
    identity. Examples come one by one.
    """

    shrinkage: float | Tensor = hyper(1e-4, "share of the identity in the covariance")

    name: ClassVar[str] = "slda"
    title: ClassVar[str] = "SLDA"
    needs: ClassVar[Needs] = Needs(batch_size=1)

    def setup(self, spec: Spec) -> Setup:
        """Means, how many examples each is of, and the covariance, in double precision."""

        def state(model: Model) -> dict[str, Tensor]:
            size = model.feature_size
            return {
                "means": torch.zeros(spec.runs, spec.classes, size, dtype=torch.float64),
                "counts": torch.zeros(spec.runs, spec.classes, dtype=torch.float64),
                "covariance": torch.zeros(spec.runs, size, size, dtype=torch.float64),
            }

        return Setup(state=state)

    def update(self, step: Step) -> Tensor:
        """Move the covariance and the mean of the label; the squared distance to it, `[K]`."""
        means, counts, covariance = (step.state[n] for n in ("means", "counts", "covariance"))
        features = step.model.features(step.x).double()
        distances = []
        for feature, y in zip(features.unbind(1), step.y.unbind(1), strict=True):
            here = y[:, None, None].expand(-1, 1, feature.shape[1])
            away = feature - means.gather(1, here).squeeze(1)  # [K, D]
            seen = counts.sum(1)
            gain = (seen / (seen + 1))[:, None, None] * away[:, :, None] * away[:, None, :]
            covariance.add_((gain - covariance) / (seen + 1)[:, None, None])
            counts.scatter_add_(1, y[:, None], torch.ones_like(counts[:, :1]))
            moved = away / counts.gather(1, y[:, None])
            means.scatter_add_(1, here, moved.unsqueeze(1))
            distances.append(away.square().sum(1))
        return torch.stack(distances, 1).mean(1).to(step.model.rate.dtype)

    def predict(self, query: Query) -> Tensor:
        """The discriminants of linear discriminant analysis, `[K, n, C]`."""
        means, counts = query.state["means"], query.state["counts"]
        share = torch.as_tensor(self.shrinkage, dtype=torch.float64).view(-1, 1, 1)
        identity = torch.eye(means.shape[2], dtype=torch.float64, device=means.device)
        shrunk = (1 - share) * query.state["covariance"] + share * identity
        weights: Tensor = torch.linalg.solve(shrunk, means.mT)  # [K, D, C]
        offsets = (means.mT * weights).sum(1, keepdim=True) / 2
        scores = query.model.features(query.x).double() @ weights - offsets
        return scores.masked_fill(counts.unsqueeze(1) == 0, UNKNOWN).to(query.model.rate.dtype)
