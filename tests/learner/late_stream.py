"""Learners with late labels, for the tests of them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from recollect import MLP, DERpp, Learner

__all__ = ["examples", "journal_files", "killed", "made", "module", "served", "state"]

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


def journal_files(folder: Path) -> list[str]:
    """The names of the files of a journal."""
    return sorted(path.name for path in folder.glob("*.journal"))


def served(learner: Learner, start: int, stop: int) -> None:
    """Predict and label, each label three predictions later, in calls of one to three labels."""
    x, y = examples(200)
    for row in range(start, stop):
        learner.predict(x[row], ids=f"id {row}")
        if row >= 3 and row % 3 == 0:
            rows = range(row - 3, row - 3 + 1 + row % 2)
            learner.label([f"id {each}" for each in rows], [y[each] for each in rows])


def killed(learner: Learner, copy: Path) -> Learner:
    """What a process that resumes the folder would get, as if this one had just been killed."""
    learner._checkpoints.wait()  # a copy is not made in an instant
    assert learner._checkpoints.folder is not None
    shutil.copytree(learner._checkpoints.folder, copy)
    found = Learner.resume(copy, module(), checkpoint_every=5)
    assert found is not None
    return found
