"""Networks with a task-dependent gate for every hidden unit (HAT)."""

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

    A gate is sigmoid(`sharpness` * e) of its embedding e in `gates`; the larger the sharpness, the
    closer it is to binary. Its gradient is replaced by `steepness`, so that embeddings train at the
    same speed for every sharpness. Only the gates of the current task are used.

    >>> net = Gated(MLP(4, 3, hidden=[6, 5]), tasks=2)
    >>> net(torch.zeros(7, 4)).shape, [list(gate.shape) for gate in net.gates]
    (torch.Size([7, 3]), [[2, 6], [2, 5]])
    """

    broadcasts_runs = True

    def __init__(self, net: nn.Module, tasks: int) -> None:
        super().__init__()
        if type(net) is not MLP:
            raise InputError(
                f"HAT needs an MLP (recollect.nets.MLP), whose hidden layers it gates, not a "
                f"{type(net).__name__}"
            )
        self.hidden, self.head = net.hidden, net.head
        biases = [bias for name, bias in net.hidden.named_parameters() if name.endswith("bias")]
        self.gates = nn.ParameterList(torch.randn(tasks, len(bias)) for bias in biases)
        self.sharpness = nn.Parameter(torch.ones(1), requires_grad=False)
        self.sharpest = nn.Parameter(torch.ones(1), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """Compute logits `[..., B, C]` of inputs `[..., B, *shape]`, with or without a run axis."""
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
    """The derivative of a gate by its embedding e, with HAT's compensation for the sharpness s.

    That is `sharpest` times (cosh(se) + 1) / (s (cosh(e) + 1)) times the derivative of sigmoid(se),
    with |se| in the cosh clamped to 50. Since the derivative of a sigmoid is 1 / (2 cosh + 2), the
    sharpness cancels except where |se| exceeds 50.

    >>> steepness(torch.zeros(1), torch.ones(1), torch.tensor([8.0]))
    tensor([2.])
    """
    beyond = (sharpness * entry).abs() - STEEPEST
    level = entry.sigmoid()
    return sharpest * level * (1 - level) * (-beyond.clamp(min=0)).exp()


def gated(build: Callable[[], nn.Module] | nn.Module, tasks: int) -> Callable[[], nn.Module]:
    """Return a function that builds a network, or copies a given one, and adds gates to it."""
    make = maker(build)
    return lambda: Gated(make(), tasks)
