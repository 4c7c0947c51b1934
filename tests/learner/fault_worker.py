"""A learner that is killed again and again, and what became of it; `test_faults.py` starts this.

The process imports torch once and then forks: a child resumes, learns and tells of every save; the
parent kills it after a random time. At the end the finished learner is saved whole, with what it
predicts, to be compared with one that nobody disturbed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from recollect import MLP, DERpp, Learner

STEPS, FEATURES, EVERY = 160, 64, 2
SIZES = [5 + 3 * step % 7 for step in range(STEPS)]
STARTS = [0, *accumulate(SIZES)]
SHARE = 1 / 5


class Mixed(nn.Module):
    """Takes vectors and words, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.hidden = nn.Embedding(2, 32), nn.Linear(FEATURES, 32)
        self.head = nn.Linear(32, 1)

    def forward(self, vector: Tensor, words: Tensor) -> dict[str, Tensor]:
        hidden = self.hidden(vector) + self.words(words).mean(1)
        return {"logits": self.head(hidden.relu())}


def given(name: str, x: np.ndarray) -> Any:
    """Examples as a network of this name takes them."""
    return x if name != "mapping" else {"vector": x, "words": (x[:, :5] > 0).astype(np.int64)}


def module(name: str) -> nn.Module:
    """A network with one output, which grows."""
    torch.manual_seed(0)
    if name == "mlp":
        return MLP(FEATURES, 1)
    if name == "mapping":
        return Mixed()
    return nn.Sequential(
        nn.Linear(FEATURES, 32), nn.ReLU(), nn.Dropout(0.3), nn.BatchNorm1d(32), nn.Linear(32, 1)
    )


def batch(step: int) -> tuple[np.ndarray, list[str]]:
    """What arrives at a step: every 20 steps there is one class more."""
    rng = np.random.default_rng((3, step))
    labels = rng.integers(0, 1 + step // 20, SIZES[step])
    x = rng.normal(size=(SIZES[step], FEATURES)) + 2 * np.eye(FEATURES)[labels]
    return x.astype(np.float32), [f"class {label}" for label in labels]


def learn(name: str, folder: Path, told: int) -> None:
    """Resume or begin, go on to the end of the stream, and tell of every save."""
    learner = Learner.resume(folder, module(name), checkpoint_every=EVERY)
    if learner is None:
        adam = name == "dropout and AdamW"
        learner = Learner(
            module(name), DERpp(0.2, 1.0), memory=400, lr=0.003 if adam else 0.03, seed=5,
            replay=12, optimiser="AdamW" if adam else "SGD", window=100, checkpoints=folder,
            checkpoint_every=EVERY,
        )  # fmt: skip
    _tell(told, "at", learner.seen)
    reported = learner.saved
    for step in range(STARTS.index(learner.seen), STEPS):
        learner.notes["next"] = step + 1
        x, y = batch(step)
        learner.observe(given(name, x), y)
        if learner.saved != reported:  # one was written in the background
            reported = learner.saved
            _tell(told, "saved", reported)
    learner.close()
    learner.save(folder / "whole")
    probe = given(name, np.concatenate([batch(step)[0] for step in range(0, STEPS, 10)]))
    (folder / "said").write_bytes(learner.predict_proba(probe).tobytes())
    (folder / "labels").write_text(json.dumps(learner.predict(probe)))


def _tell(told: int, *words: object) -> None:
    os.write(told, (" ".join(map(str, words)) + "\n").encode())


class Life:
    """One child, from its start to its end, by whatever cause."""

    def __init__(self, name: str, folder: Path, after: float | None) -> None:
        before = _half_written(folder)
        reading, writing = os.pipe()
        began = time.perf_counter()
        child = os.fork()
        if not child:
            code = 1
            try:
                learn(name, folder, writing)
                code = 0
            finally:
                os._exit(code)
        os.close(writing)
        if after is not None:
            time.sleep(after)
            os.kill(child, signal.SIGKILL)
        with os.fdopen(reading) as lines:
            told = [line.split() for line in lines if line.endswith("\n")]
        status = os.waitpid(child, 0)[1]
        self.seconds = time.perf_counter() - began
        self.killed = os.WIFSIGNALED(status)
        self.finished = os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0
        self.at = [int(seen) for what, seen in told if what == "at"]
        self.saved = [int(seen) for what, seen in told if what == "saved"]
        self.during_a_save = self.killed and bool(_half_written(folder) - before)


def disturbed(name: str, folder: Path, kills: int, longest: float) -> dict[str, object]:
    """Kill runs until it happened so often and the last of them is at its end."""
    rng = random.Random(name)
    done, during, early, ends, failed, lost = 0, 0, 0, 0, 0, 0
    here, reported = folder / "0", 0
    here.mkdir(parents=True)
    while True:
        life = Life(name, here, rng.uniform(0, longest) if done < kills else None)
        done, during = done + life.killed, during + life.during_a_save
        early += life.killed and not life.at
        failed += not life.killed and not life.finished
        lost += any(seen < reported for seen in life.at)
        reported = max([reported, *life.saved])
        if life.finished or failed:
            ends += 1
            if done >= kills or failed:
                break
            here, reported = folder / str(ends), 0
            here.mkdir()
    return {
        "kills": done, "during a save": during, "before it had resumed": early, "runs": ends,
        "failed": failed, "resumed before a reported save": lost,
    }  # fmt: skip


def _half_written(folder: Path) -> set[str]:
    return {path.name for path in folder.glob(".*.part")}


def main(name: str, place: Path, kills: int) -> None:
    """One run in peace, then those that are killed; prints what happened."""
    torch.set_num_threads(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    learn(name, place / "first", nowhere)  # torch loads parts of itself when they are needed first
    calm = Life(name, place / "calm", None)
    assert calm.finished
    # Lives are a fraction of a run, however busy the machine is.
    print(json.dumps(disturbed(name, place / "killed", kills, SHARE * calm.seconds)))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
