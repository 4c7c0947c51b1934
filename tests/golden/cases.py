"""What is run: two small streams, two networks, and every method with its options."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from sklearn.datasets import load_digits
from tests.golden.driver import METHODS, needs_one_by_one
from torch import nn

from recollect import MLP, from_arrays
from recollect.core.images import Images
from recollect.methods import Method
from recollect.streams import TaskStream

__all__ = ["BUFFER", "CLASSES", "OPTIONS", "RATE", "SEEDS", "Data", "data", "method", "network"]

SEEDS = [1, 2**40]
CLASSES, TESTED = 6, 8
BUFFER, RATE = 25, 0.1
BATCH = 10

# Beside the defaults; each is a run of its own.
OPTIONS: dict[str, list[dict[str, float]]] = {
    "oewc": [{"lambda_": 5.0, "gamma": 0.9, "answers": 3}],
    "ewc": [{"lambda_": 5.0, "answers": 3}],
    "lwf": [{"wd": 0.01}],
    "pc": [{"gamma": 0.9, "passes": 2}],
    "packnet": [{"prune": 0.6, "retrain": 2}],
    "hat": [{"smax": 20.0, "c": 0.1}],
    "mer": [{"beta": 0.5, "gamma": 0.7, "nb": 2, "inner": 2}],
    "icarl": [{"wd": 0.01}],
    "fdr": [{"two_steps": 1, "training_mode": 1}],
    "gss": [{"whole": 1.0}, {"gmbs": 5, "nb": 2}],
    "hal": [{"reservoir": 1}],
    "er-hybrid": [{"least": 4}],
    "er-ace": [{"unseen": 1}],
    "cls-er": [{"constant": 1, "plastic_decay": 0.7, "stable_decay": 0.8}],
    "x-der": [{"gamma": 0.5, "views": 1, "eta": 0.5}],
    "scr": [{"raw": 1, "projection": 5}],
    "star": [{"around": 1}, {"around": 2, "gamma": 0.2}],
}


class Data(NamedTuple):
    """A stream of three tasks with two classes each, and how often it is gone through."""

    stream: TaskStream
    batch: int
    epochs: int


@cache
def data(kind: str, one_by_one: bool) -> Data:
    """Digits as real numbers, or as images of three channels that are cropped and flipped.

    Batches do not divide a task, and memory fills and then replaces what it holds.
    """
    per_class = 6 if one_by_one else 16 if kind == "images" else 24
    x, y = load_digits(n_class=CLASSES, return_X_y=True)
    pixels = x.reshape(-1, 8, 8)
    order = [np.flatnonzero(y == label)[: per_class + TESTED] for label in range(CLASSES)]
    train = np.concatenate([ids[:per_class] for ids in order])
    test = np.concatenate([ids[per_class:] for ids in order])
    seen = (pixels / 16).astype(np.float32)
    images = None
    if kind == "images":
        views = [pixels * 15, pixels.transpose(0, 2, 1) * 12, 255 - pixels * 10]
        seen = np.stack(views, 1).astype(np.uint8)
        images = Images(mean=(0.3, 0.25, 0.6), std=(0.4, 0.3, 0.3), padding=1)
    stream = from_arrays(seen[train], y[train], test=(seen[test], y[test]), tasks=3, name="golden")
    stream = TaskStream(**{**vars(stream), "images": images})
    return Data(stream, 1 if one_by_one else BATCH, 1 if one_by_one else 2)


def network(kind: str, classes: int = CLASSES) -> nn.Module:
    """A dense network for digits; convolutions with BatchNorm for images.

    They have no bias: before BatchNorm its gradient is zero but for rounding, and so would be what
    a method such as SI makes of it.
    """
    if kind == "digits":
        return MLP(64, classes, hidden=(12, 10))
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.AvgPool2d(2),
        nn.Conv2d(4, 5, 3, bias=False), nn.BatchNorm2d(5), nn.ReLU(), nn.Flatten(),
        nn.Linear(20, classes),
    )  # fmt: skip


def method(name: str, options: dict[str, float]) -> Method:
    """A method with some options."""
    return METHODS[name](**options)


def arriving(name: str, kind: str) -> list[tuple[torch.Tensor, list[str]]]:
    """The training examples of a stream in batches, for a learner: task by task, mixed in each."""
    found = data(kind, needs_one_by_one(name))
    seeds, batches = torch.tensor([0]), []
    for task in range(found.stream.tasks):
        order = found.stream.order(seeds, task, 0, 0, sum(found.stream.parts(task)))
        x, y = found.stream.pick(seeds, task, order)
        for start in range(0, y.shape[1], found.batch):
            here = slice(start, start + found.batch)
            batches.append((x[0, here], [f"class {label}" for label in y[0, here].tolist()]))
    return batches
