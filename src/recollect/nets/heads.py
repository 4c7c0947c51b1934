"""Output layers on a random projection and on normalised features."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from recollect.core.dense import Dense
from recollect.core.modules import Features, maker, replace_head

__all__ = ["Projected", "UnitLinear", "projected"]


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


class UnitLinear(nn.Linear):
    """A linear layer on L2-normalised inputs.

    >>> layer = UnitLinear(4, 3)
    >>> x = torch.rand(5, 4)
    >>> torch.allclose(layer(x), layer(7 * x))
    True
    """

    def forward(self, x: Tensor) -> Tensor:
        """Compute outputs `[n, C]` of features `[n, D]`."""
        return super().forward(normalize(x, dim=-1))


def projected(build: Callable[[], nn.Module] | nn.Module, size: int) -> Callable[[], nn.Module]:
    """Return a function that builds the network with its last layer replaced by `Projected`.

    The entries of the projection are normally distributed.
    """
    make = maker(build)

    def made() -> nn.Module:
        module = make()
        old = Features(module)
        weight, dense = next(old.head.parameters()), isinstance(old.head, Dense)
        # Drawn first, so that it does not depend on the number of classes.
        projection = torch.randn(old.size, size)
        head = (Dense if dense else nn.Linear)(size, weight.shape[1 if dense else 0])
        return replace_head(module, Projected(projection, head).to(weight.device, weight.dtype))

    return made
