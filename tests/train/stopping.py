"""Jobs, and ways to stop them, for the tests of checkpoints."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from recollect import ER, MLP, SGD, DERpp, Joint, Method
from recollect.core.images import Images
from recollect.streams import Stream, TaskStream
from recollect.train import Checkpoints, Job, Run, TimeUp, train
from recollect.train.checkpoint import Saved

NAME = "abc"

PAIRS: dict[str, list[Method]] = {
    "sgd": [SGD(), SGD()],
    "er": [ER(), ER()],
    "derpp": [DERpp(0.3, 0.5), DERpp(0.6, 0.1)],
    "joint": [Joint(), Joint()],
}

mlp = partial(MLP, 6, 4, hidden=(8,))


def normalised() -> nn.Module:
    first = [nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3)]
    return nn.Sequential(*first, nn.Linear(8, 4))


def convolutional() -> nn.Module:
    first = [nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU()]
    return nn.Sequential(*first, nn.Flatten(), nn.Linear(12, 4))


def photographs() -> TaskStream:
    """Two tasks of 20 images of bytes that are cropped and flipped."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(256, (40, 2, 4, 4), dtype=torch.uint8, generator=generator)
    y = torch.arange(40) % 4
    x[:, 0, :2] = (60 * y.view(-1, 1, 1)).to(torch.uint8)
    classes = ((0, 1), (2, 3))
    ids = tuple(torch.isin(y, torch.tensor(pair)).nonzero().flatten() for pair in classes)
    images = Images(mean=(0.5, 0.4), std=(0.2, 0.3), padding=1)
    return TaskStream("photos", "class", 4, x, y, x, y, ids, ids, classes, images=images)


def job_of(stream: Stream, *methods: Method, **changes: Any) -> Job:
    runs = tuple(Run(seed, 0.05 * (seed + 1), method) for seed, method in enumerate(methods))
    buffer = 12 if methods[0].replay else None
    job = Job(stream, runs, batch=10, replay=5, buffer=buffer, epochs=1, network=mlp)
    return replace(job, **changes)


def stop_at(stretch: int, job: Job, checkpoints: Checkpoints) -> None:
    """Train a job until its time limit comes in the given stretch."""
    met: list[int] = []

    def report(steps: int) -> None:
        met.append(steps)
        if len(met) == stretch:
            checkpoints.deadline = 0.0

    with pytest.raises(TimeUp):
        train(job, report, checkpoints)


def some_state(value: float = 1.5) -> Saved:
    tensors = {"weights.a": torch.full((2, 3), value), "memory.x": torch.arange(6).byte()}
    return Saved({"task": 1, "rows": {"class": [[[0.1, None]]]}}, tensors)


def same(ours: Saved | None, theirs: Saved) -> bool:
    return (
        ours is not None
        and ours.facts == theirs.facts
        and ours.tensors.keys() == theirs.tensors.keys()
        and all(equal(tensor, theirs.tensors[name]) for name, tensor in ours.tensors.items())
    )


def equal(ours: Tensor, theirs: Tensor) -> bool:
    return ours.dtype == theirs.dtype and torch.equal(ours, theirs)


class Crash(BaseException):
    """The machine goes down."""
