"""Networks of nine inputs and three outputs, one for every strategy."""

from __future__ import annotations

import torch
from torch import nn

from recollect import MLP
from recollect.core.model import Model
from recollect.core.network import Network


def model_of(network: Network) -> Model:
    runs = network.weights.runs
    rate = torch.ones(runs, dtype=network.dtype)
    return Model(network, network.weights, network.buffers, rate)


def mlp() -> nn.Module:
    return MLP(9, 3, hidden=(5, 4))


def dense() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(9, 5), nn.Tanh(), nn.Linear(5, 3))


def normalised() -> nn.Module:
    """Of images `[1, 3, 3]`."""
    stem = [nn.Conv2d(1, 2, 2, bias=False), nn.BatchNorm2d(2), nn.ReLU()]
    return nn.Sequential(*stem, nn.Flatten(), nn.Linear(8, 3))
