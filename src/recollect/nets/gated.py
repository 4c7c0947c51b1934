"""Networks with a gate for every hidden unit, open or closed in each task."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from recollect.core.by_task import ByTask
from recollect.core.modules import maker
from recollect.errors import InputError
from recollect.nets.mlp import MLP

__all__ = ["Gated", "gated", "steepness"]

STEEPEST = 50.0


class Gated(ByTask):
    """A multi-layer perceptron with a gate for every hidden unit and task (Serra et al., 2018).

    A gate is the sigmoid of its entry in `gates` times `sharpness`: the larger that is, the more it
    is open or closed. Its slope is given as `steepness` says, so that entries learn alike at any
    sharpness. All are weights of the fleet; only the gates of the task are used.

    >>> net = Gated(MLP(4, 3, hidden=[6, 5]), tasks=2)
    >>> net(torch.zeros(7, 4)).shape, [list(gate.shape) for gate in net.gates]
    (torch.Size([7, 3]), [[2, 6], [2, 5]])
    """

    broadcasts_runs = True

    def __init__(self, net: nn.Module, tasks: int) -> None:
        super().__init__()
        if type(net) is not MLP:
            raise InputError(
                f"HAT gates the hidden layers of an MLP: it does not know those of a "
                f"{type(net).__name__}"
            )
        self.hidden, self.head = net.hidden, net.head
        biases = [bias for name, bias in net.hidden.named_parameters() if name.endswith("bias")]
        self.gates = nn.ParameterList(torch.randn(tasks, len(bias)) for bias in biases)
        self.sharpness = nn.Parameter(torch.ones(1), requires_grad=False)
        self.sharpest = nn.Parameter(torch.ones(1), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """Logits `[..., B, C]` of inputs `[..., B, *shape]`, with or without a run axis."""
        hidden = x.flatten(self.head.weight.dim() - 1)
        for layer, entries in zip(self.hidden, self.gates, strict=True):
            entry = entries[..., self.task, :]
            fixed = entry.detach()
            gate = (self.sharpness * fixed).sigmoid()
            gate = gate + steepness(fixed, self.sharpness, self.sharpest) * (entry - fixed)
            hidden = (layer(hidden) * gate.unsqueeze(-2)).relu()
        logits: Tensor = self.head(hidden)
        return logits


def steepness(entry: Tensor, sharpness: Tensor, sharpest: Tensor) -> Tensor:
    """The slope of a gate in its entry e, as HAT corrects it for the sharpness s.

    That is `sharpest` times (cosh(se) + 1) / (s (cosh(e) + 1)) times the slope of sigmoid(se), with
    |se| in the cosh not above 50. Since the slope of a sigmoid is 1 / (2 cosh + 2), only what lies
    beyond 50 is left of s.

    >>> steepness(torch.zeros(1), torch.ones(1), torch.tensor([8.0]))
    tensor([2.])
    """
    beyond = (sharpness * entry).abs() - STEEPEST
    level = entry.sigmoid()
    return sharpest * level * (1 - level) * (-beyond.clamp(min=0)).exp()


def gated(build: Callable[[], nn.Module] | nn.Module, tasks: int) -> Callable[[], nn.Module]:
    """A function that puts gates into every network that `build` makes or is."""
    make = maker(build)
    return lambda: Gated(make(), tasks)
