"""Learners with late labels, for the tests of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from recollect import MLP, DERpp, Learner

__all__ = ["examples", "facts_of", "made", "module", "state"]

FEATURES = 6


def module() -> nn.Module:
    """A network with one output, the same each time."""
    torch.manual_seed(0)
    return MLP(FEATURES, 1, hidden=(8,))


def made(folder: Path | None = None, every: int | None = None, **more: Any) -> Learner:
    """A new learner, with checkpoints in a folder if there is one."""
    arguments: dict[str, Any] = {"memory": 30, "lr": 0.1, "replay": 8, "window": 50, **more}
    return Learner(
        module(),
        DERpp(0.2, 0.5),
        checkpoints=folder,
        checkpoint_every=every,
        **arguments,
    )


def examples(count: int, seed: int = 0) -> tuple[np.ndarray, list[str]]:
    """Examples `[n, 6]` of three classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, count)
    x = rng.normal(size=(count, FEATURES)) + 2 * np.eye(FEATURES)[y]
    return x.astype(np.float32), [f"class {each}" for each in y]


def state(learner: Learner) -> bytes:
    """All of a learner, as its file would have it."""
    return learner._packed()


def facts_of(folder: Path) -> list[str]:
    """The names of the files of a journal."""
    return sorted(path.name for path in folder.glob("*.journal"))
