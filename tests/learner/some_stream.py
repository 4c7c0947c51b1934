"""Batches and networks that several tests of the learner use."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from recollect import Learner
from recollect.learner.engine.engine import Engine

__all__ = ["batch", "batches", "engine_of", "network", "normalised", "weights"]


def batches(count: int, size: int = 5, classes: int = 3) -> Iterator[tuple[np.ndarray, list[int]]]:
    """Batches that can be learned, always the same."""
    rng = np.random.default_rng(0)
    for _ in range(count):
        y = rng.integers(classes, size=size)
        yield rng.normal(size=(size, 4)).astype(np.float32) + 4 * np.eye(3, 4)[y], y.tolist()


def batch(step: int, size: int = 5) -> tuple[np.ndarray, list[int]]:
    """A batch of its own for every step; there is nothing to learn from it."""
    rng = np.random.default_rng(step)
    return rng.normal(size=(size, 4)).astype(np.float32), rng.integers(3, size=size).tolist()


def engine_of(learner: Learner) -> Engine:
    assert learner._now.engine is not None
    return learner._now.engine


def weights(learner: Learner) -> dict[str, Tensor]:
    return dict(learner.trained_module().named_parameters())


def network(outputs: int = 3) -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, outputs))


def normalised(outputs: int = 3) -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 8, 3), nn.BatchNorm1d(8), nn.ReLU(), nn.Flatten(),
        nn.Linear(16, outputs),
    )  # fmt: skip
