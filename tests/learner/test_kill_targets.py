"""A process that learns values or several labels is killed at any time, and goes on exactly."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from recollect import MLP, DERpp, Learner

ROWS = 300
X = np.random.default_rng(0).normal(size=(ROWS, 5, 3)).astype(np.float32)


def target_of(target: str, x: np.ndarray) -> object:
    if target == "regression":
        return 1e3 + 50 * x.sum(1)
    return [{f"above {n}" for n in range(3) if row[n] > 0} for row in x]


def made(target: str, folder: Path | None) -> Learner:
    torch.manual_seed(0)
    every = {} if folder is None else {"checkpoints": folder, "checkpoint_every": 3}
    return Learner(MLP(3, 1, hidden=(8,)), DERpp(), memory=40, lr=0.05, replay=8, target=target,
                   spare=1, **every)  # type: ignore[arg-type] # fmt: skip


def learn(target: str, folder: Path | None, pause: float = 0.0) -> Learner:
    """Learn all batches, from where the folder was left; every third has weights."""
    learner = made(target, folder)
    if folder is not None:
        learner.close()
        learner = Learner.resume(folder, MLP(3, 1, hidden=(8,))) or made(target, folder)
    for number in range(learner.arrived // 5, ROWS):
        weight = [1.0, 2.0, 0.5, 0.0, 1.0] if number % 3 == 2 else None
        learner.observe(X[number], target_of(target, X[number]), weight=weight)
        time.sleep(pause)
    return learner


@pytest.mark.parametrize("target", ["regression", "labels"])
def test_a_killed_process_goes_on_exactly(target: str, tmp_path: Path) -> None:
    whole, chance, kills = learn(target, None), random.Random(0), 0
    command = [sys.executable, __file__, target, str(tmp_path / "state")]
    for _ in range(3):
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()  # it has begun
        time.sleep(chance.uniform(0.1, 0.6))
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
        process.stdout.close()
    learner = learn(target, tmp_path / "state")
    assert kills, "at least one was killed before its end"
    assert learner.metrics() == whole.metrics()
    scores, others = learner._scores(X[0])[0], whole._scores(X[0])[0]
    assert torch.equal(scores, others)
    learner.close()


if __name__ == "__main__":
    print("begun", flush=True)
    learn(sys.argv[1], Path(sys.argv[2]), pause=0.005)
