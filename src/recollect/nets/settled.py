"""Networks whose batch normalisation is frozen after the first task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from recollect.core.batchnorm import PartNorm
from recollect.core.by_task import ByTask
from recollect.core.modules import maker

__all__ = ["Settled", "settled"]


class Settled(ByTask):
    """A wrapper that freezes the batch normalisation statistics after the first task.

    >>> net = Settled(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)))
    >>> net.begin(1)
    >>> net.net[0].training, net.net[1].training
    (True, False)
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.broadcasts_runs = getattr(net, "broadcasts_runs", False)

    def forward(self, x: Tensor) -> Tensor:
        """Compute the outputs of the wrapped network."""
        logits: Tensor = self.net(x)
        return logits

    def train(self, mode: bool = True) -> Self:
        """Set the mode of all layers; batch normalisation trains in the first task only."""
        super().train(mode)
        for layer in self.modules():
            if isinstance(layer, PartNorm | _BatchNorm):
                layer.train(mode and not self.task)
        return self


def settled(build: Callable[[], nn.Module] | nn.Module) -> Callable[[], nn.Module]:
    """Return a function that builds a network, or copies a given one, and wraps it."""
    make = maker(build)
    return lambda: Settled(make())
