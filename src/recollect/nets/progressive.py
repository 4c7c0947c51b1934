"""Progressive networks: a column for every task, with lateral connections from earlier columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self

import torch
from torch import Tensor, nn

from recollect.core.by_task import ByTask
from recollect.core.dense import Dense
from recollect.core.modules import maker
from recollect.errors import InputError
from recollect.nets.mlp import MLP
from recollect.nets.resnet import ResNet18

Seen = Sequence[Tensor]


class Progressive(ByTask):
    """A progressive neural network: one column per task (Rusu et al., 2016).

    Each layer of a column (each stage of a residual network) receives the outputs of the previous
    layer in its own column and in all earlier columns. Only the current task's column is trained
    and updates its statistics; earlier columns are frozen, and later ones are not computed.

    >>> net = Progressive([MLP(4, 3, hidden=[6, 5]) for _ in range(3)])
    >>> net.begin(2)
    >>> net(torch.zeros(7, 4)).shape, [*net.columns[2].head.weight.shape]
    (torch.Size([7, 3]), [15, 3])
    """

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.columns = nn.ModuleList(_column(net, before) for before, net in enumerate(networks))
        self.broadcasts_runs = isinstance(networks[0], MLP)

    def forward(self, x: Tensor) -> Tensor:
        """Compute the logits of the current task's column."""
        earlier: list[Seen] = []
        with torch.no_grad():
            for number in range(self.task):
                earlier.append(self.columns[number](x, earlier)[0])
        logits: Tensor = self.columns[self.task](x, earlier)[1]
        return logits

    def train(self, mode: bool = True) -> Self:
        """Set the mode of the current task's column; all other columns are in evaluation mode."""
        super().train(mode)
        for number, column in enumerate(self.columns):
            column.train(mode and number == self.task)
        return self


def progressive(build: Callable[[], nn.Module] | nn.Module, tasks: int) -> Progressive:
    """Build a `Progressive` network with a column for every task."""
    make = maker(build)
    return Progressive([make() for _ in range(tasks)])


class _DenseColumn(nn.Module):
    """An MLP whose layers have the activations of earlier columns as further inputs."""

    def __init__(self, net: MLP, before: int) -> None:
        super().__init__()
        layers = [*net.hidden, net.head]
        for layer in layers[1:] if before else ():
            _widen(layer, before * layer.weight.shape[0])
        self.hidden, self.head = net.hidden, net.head

    def forward(self, x: Tensor, earlier: Sequence[Seen]) -> tuple[list[Tensor], Tensor]:
        """Compute the activations of each hidden layer, and the logits."""
        seen: list[Tensor] = []
        read = x.flatten(self.head.weight.dim() - 1)
        for number, layer in enumerate(self.hidden):
            seen.append(layer(read).relu())
            read = torch.cat([seen[-1], *(other[number] for other in earlier)], -1)
        return seen, self.head(read)


class _StagedColumn(nn.Module):
    """A ResNet with 1x1 convolutions of earlier columns' activations added after each stage.

    These are batch-normalised, like shortcuts, since the scale of an earlier column may be any.
    """

    def __init__(self, net: ResNet18, before: int) -> None:
        super().__init__()
        self.net = net
        widths = [_channels(net.stem), *map(_channels, net.stages)] if before else []
        self.adapters = nn.ModuleList(
            nn.Sequential(nn.Conv2d(before * width, width, 1, bias=False), nn.BatchNorm2d(width))
            for width in widths
        )

    def forward(self, x: Tensor, earlier: Sequence[Seen]) -> tuple[list[Tensor], Tensor]:
        """Compute the activations of the stem and of each stage, and the logits."""
        seen: list[Tensor] = []
        for number, stage in enumerate([self.net.stem, *self.net.stages]):
            x = stage(x)
            seen.append(x)
            if earlier:
                x = x + self.adapters[number](torch.cat([other[number] for other in earlier], 1))
        return seen, self.net.head(x.mean((2, 3)))


def _column(net: nn.Module, before: int) -> nn.Module:
    # Subclasses are refused, since their forward pass may differ.
    if type(net) is MLP:
        return _DenseColumn(net, before)
    if type(net) is ResNet18:
        return _StagedColumn(net, before)
    raise InputError(
        f"PNN and P&C need an MLP or ResNet18 (recollect.nets), whose layers they connect, not a "
        f"{type(net).__name__}"
    )


def _widen(layer: Dense, more: int) -> None:
    """Add inputs to a layer, with weights initialised like the others."""
    beside = Dense(more, layer.weight.shape[1]).weight.to(layer.weight)
    layer.weight = nn.Parameter(torch.cat([layer.weight, beside]).detach())


def _channels(stage: nn.Module) -> int:
    """The output channels of a stage: those of its last normalisation outside shortcuts."""
    norms = [m for n, m in stage.named_modules() if "shortcut" not in n]
    return [m.num_features for m in norms if isinstance(m, nn.BatchNorm2d)][-1]
