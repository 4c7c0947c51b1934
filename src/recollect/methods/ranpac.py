"""RanPAC: random projections and ridge regression on fixed features (McDonnell et al., 2023)."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn

from recollect.core.dense import Dense
from recollect.core.model import Model
from recollect.core.modules import Features, maker, replace_head
from recollect.core.weights import State
from recollect.methods.base import ClosedForm, Query, Setup, Spec, Step, hyper
from recollect.methods.closed_form import (
    UNSEEN,
    Solved,
    known_only,
    linear_head,
    one_hot,
    solution,
)
from recollect.methods.setup import Build

_solved = Solved[Tensor]()


@dataclass(frozen=True)
class RanPAC(ClosedForm):
    """Ridge regression of the labels on a random projection of frozen features.

    The state is the Gram matrix of projected features and their products with one-hot labels. The
    network and the projection are not trained, and the result does not depend on the order of the
    examples or the batch size.

    >>> RanPAC(M=500)
    RanPAC(M=500, lambda_=1.0)
    """

    M: int = hyper(1000, "size of the random projection; memory grows with its square")
    lambda_: float | Tensor = hyper(1.0, "ridge penalty of the regression, above 0")

    name: ClassVar[str] = "ranpac"
    title: ClassVar[str] = "RanPAC"

    def setup(self, spec: Spec) -> Setup:
        def state(model: Model) -> dict[str, Tensor]:
            zeros = partial(torch.zeros, dtype=torch.float64)
            return {
                "gram": zeros(spec.runs, self.M, self.M),
                "products": zeros(spec.runs, self.M, spec.classes),
                "counts": zeros(spec.runs, spec.classes),
            }

        return Setup(state=state, network=lambda build: partial(projected, build, self.M))

    def update(self, step: Step) -> Tensor:
        """Update the sums; returns the mean squared distance to the previous class means, `[K]`."""
        gram, products, counts = (step.state[n] for n in ("gram", "products", "counts"))
        features = step.model.features(step.x).double()  # projected, [K, B, M]
        member = one_hot(step.y, counts.shape[1], features.dtype)
        means = products / counts.clamp(min=1).unsqueeze(1)
        away = features - member @ means.mT
        gram.baddbmm_(features.mT, features)
        products.baddbmm_(features.mT, member)
        counts.add_(member.sum(1))
        return away.square().sum(2).mean(1).to(step.model.rate.dtype)

    def predict(self, query: Query) -> Tensor:
        """The outputs of the regression, `[K, n, C]`, near 1 for the predicted class."""
        steps, gram = query.clock.steps, query.state["gram"]
        weights = _solved(self, gram, steps, lambda: self._weights(query.state))
        scores = query.model.features(query.x).double() @ weights
        return known_only(scores, query.state, query.model)

    def export(self, module: nn.Module, state: State) -> nn.Module:
        bias = torch.where(state["counts"][0] == 0, UNSEEN, 0.0)
        return linear_head(module, self._weights(state)[0], bias)

    def _weights(self, state: State) -> Tensor:
        """The solution of the regression, `[K, M, C]`."""
        return solution(state["gram"], self.lambda_, state["products"], "lambda")


class Projected(nn.Module):
    """A frozen random projection, ReLU, and a linear layer.

    >>> Projected(torch.randn(4, 100), Dense(100, 3))(torch.zeros(5, 4)).shape
    torch.Size([5, 3])
    """

    def __init__(self, weight: Tensor, head: nn.Module) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=False)  # [D, M]
        self.head = head
        self.broadcasts_runs = isinstance(head, Dense)

    def forward(self, x: Tensor) -> Tensor:
        """Compute outputs `[..., B, C]` of features `[..., B, D]`, with or without a run axis."""
        outputs: Tensor = self.head((x @ self.weight).relu())
        return outputs


def projected(build: Build, size: int) -> nn.Module:
    """Build the network with its last layer replaced by `Projected`.

    The entries of the projection are normally distributed.
    """
    module = maker(build)()
    old = Features(module)
    weight, dense = next(old.head.parameters()), isinstance(old.head, Dense)
    # Drawn first, so that it does not depend on the number of classes.
    projection = torch.randn(old.size, size)
    head = (Dense if dense else nn.Linear)(size, weight.shape[1 if dense else 0])
    return replace_head(module, Projected(projection, head).to(weight.device, weight.dtype))
