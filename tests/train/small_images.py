"""Images `[3, 6, 6]` of three classes for two runs, and networks for them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from recollect import MLP

SHAPE, CLASSES = (3, 6, 6), 3


def mlp() -> nn.Module:
    return MLP(108, CLASSES, hidden=(5,))


def dense() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(108, 5), nn.Tanh(), nn.Linear(5, CLASSES))


def convolutional() -> nn.Module:
    stem = [nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU()]
    return nn.Sequential(*stem, nn.Flatten(), nn.Linear(64, CLASSES))


def byte_images(count: int) -> tuple[Tensor, Tensor]:
    generator = torch.manual_seed(3)
    x = torch.randint(256, (2, count, *SHAPE), dtype=torch.uint8, generator=generator)
    return x, torch.randint(CLASSES, (2, count), generator=generator)
