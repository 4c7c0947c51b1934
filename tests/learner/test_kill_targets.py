"""A process that learns values, several labels or mappings is killed, and goes on exactly."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from recollect import MLP, DERpp, Learner

ROWS = 300
X = np.random.default_rng(0).normal(size=(ROWS, 5, 3)).astype(np.float32)


class Named(nn.Module):
    """A network that takes values and a mask by name, and gives a mapping."""

    def __init__(self) -> None:
        super().__init__()
        self.net = MLP(3, 1, hidden=(8,))

    def forward(self, values: Tensor, mask: Tensor) -> dict[str, Tensor]:
        return {"logits": self.net(values * mask)}


def network(kind: str) -> nn.Module:
    torch.manual_seed(0)
    return Named() if kind == "mapping" else MLP(3, 1, hidden=(8,))


def example(kind: str, x: np.ndarray) -> tuple[Any, Any]:
    """What the learner is given of a batch: examples and targets."""
    if kind == "regression":
        return x, 1e3 + 50 * x.sum(1)
    if kind == "labels":
        return x, [{f"above {n}" for n in range(3) if row[n] > 0} for row in x]
    return {"mask": x < 1, "values": x}, [f"most is {n}" for n in x.argmax(1)]


def made(kind: str, folder: Path | None) -> Learner:
    every = {} if folder is None else {"checkpoints": folder, "checkpoint_every": 3}
    target = "class" if kind == "mapping" else kind
    return Learner(network(kind), DERpp(), memory=40, lr=0.05, replay=8, target=target,
                   spare=1, window=2000, **every)  # type: ignore[arg-type] # fmt: skip


def learn(kind: str, folder: Path | None, pause: float = 0.0) -> Learner:
    """Learn all batches, from where the folder was left; every third has weights."""
    learner = made(kind, folder)
    if folder is not None:
        learner.close()
        learner = Learner.resume(folder, network(kind)) or made(kind, folder)
    for number in range(learner.arrived // 5, ROWS):
        weight = [1.0, 2.0, 0.5, 0.0, 1.0] if number % 3 == 2 else None
        learner.observe(*example(kind, X[number]), weight=weight)
        time.sleep(pause)
    return learner


@pytest.mark.parametrize("kind", ["regression", "labels", "mapping"])
def test_a_killed_process_goes_on_exactly(kind: str, tmp_path: Path) -> None:
    whole, chance, kills = learn(kind, None), random.Random(0), 0
    command = [sys.executable, __file__, kind, str(tmp_path / "state")]
    for _ in range(3):
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()  # it has begun
        time.sleep(chance.uniform(0.1, 0.6))
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
        process.stdout.close()
    learner = learn(kind, tmp_path / "state")
    assert kills, "at least one was killed before its end"
    assert learner.metrics() == whole.metrics()
    x = example(kind, X[0])[0]
    scores, others = learner._scores(x)[0], whole._scores(x)[0]
    assert torch.equal(scores, others)
    learner.close()


if __name__ == "__main__":
    print("begun", flush=True)
    learn(sys.argv[1], Path(sys.argv[2]), pause=0.005)
