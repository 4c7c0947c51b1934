"""Fleets, examples and comparisons that the tests of several folders build alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from recollect import Fleet, Method
from recollect.core.images import Images
from recollect.streams import TaskStream
from recollect.train import Checkpoints, Job, Result, TimeUp, train
from recollect.train.fleet_tasks import Examples

Build = Callable[[], nn.Module]


def fleet_of(methods: Sequence[Method], network: Build, **changes: Any) -> Fleet:
    """A fleet in double precision of six inputs and three classes, unless it is changed."""
    runs = len(methods)
    usual = {
        "seeds": list(range(runs)), "lr": [0.1] * runs, "classes": 3, "shape": (6,),
        "stored": torch.float64, "dtype": torch.float64,
    }  # fmt: skip
    return Fleet(methods, network, **{**usual, **changes})


def picked(x: Tensor, y: Tensor) -> Examples:
    """The examples x `[K, n, ...]`, y `[K, n]` of a task, at an index of every run."""
    runs = torch.arange(len(x))[:, None]
    return lambda index: (x[runs, index], y[runs, index])


def learn_task(fleet: Fleet, x: Tensor, y: Tensor, batch: int, epochs: int = 1) -> Tensor:
    """Start a task, learn it, end it as the method asks, and go on; the last loss."""
    examples, count = picked(x, y), y.shape[1]
    fleet.start_task(examples, count, batch)
    for _ in range(epochs):
        loss = fleet.learn(x, y, batch)
    for _ in range(fleet.end_task(examples, count, batch)):
        loss = fleet.learn(x, y, batch)
    fleet.next_task(count)
    return loss


def task_examples(tasks: int, count: int, classes: int) -> tuple[Tensor, Tensor]:
    """Examples of one run whose tasks bring new classes: x `[1, T, n, 6]`, y `[1, T, n]`."""
    generator = torch.Generator().manual_seed(5)
    x = torch.rand(1, tasks, count, 6, dtype=torch.float64, generator=generator)
    y = torch.randint(classes // tasks, (1, tasks, count), generator=generator)
    return x, y + classes // tasks * torch.arange(tasks)[:, None]


def image_stream(size: int = 8, images: Images | None = None) -> TaskStream:
    """Three tasks of two classes and 20 images `[3, size, size]`, of bytes if `images` is given."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(60) % 6
    x = torch.rand(60, 3, size, size, generator=generator)
    x.flatten(1)[torch.arange(60), y] += 1
    if images is not None:
        x = (x * 127).to(torch.uint8)
    tasks = ((0, 1), (2, 3), (4, 5))
    ids = tuple(torch.isin(y, torch.tensor(pair)).nonzero().flatten() for pair in tasks)
    return TaskStream("toy", "class", 6, x, y, x, y, ids, ids, tasks, images=images)


def close(ours: Tensor, theirs: Tensor, off: float = 1e-9) -> None:
    torch.testing.assert_close(ours, theirs.detach(), rtol=0, atol=off)


def assert_close(fleet: Fleet, other: Fleet, off: float = 1e-9) -> None:
    """Everything that learning changes is the same but for rounding, on any devices."""
    theirs = learned(other)
    for name, tensor in learned(fleet).items():
        there = theirs[name].to(tensor.device)
        try:
            torch.testing.assert_close(tensor, there, rtol=0, atol=off)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None


def learned(fleet: Fleet) -> dict[str, Tensor]:
    """A fleet's tensors without the spare row of its memory, and of state with a row per slot.

    Of several examples that are not to be stored, any may come to lie there on a GPU.
    """
    stored = {f"memory.{name}": tensor for name, tensor in fleet.memory.fields().items()}
    for name in fleet.by_slot:
        stored[f"state.{name}"] = fleet.state[name][:, : fleet.memory.capacity]
    return {**fleet.tensors(), **stored}


def timeless(results: list[Result]) -> list[Result]:
    return [replace(result, train_seconds=0.0) for result in results]


def stopped_at_every_stretch(
    work: Callable[[Checkpoints], list[Result]], folder: Path
) -> tuple[list[Result], int]:
    """The results of a command that is given no time at all, and how often it was stopped."""
    for stops in range(1000):
        try:
            return work(Checkpoints(folder, deadline=0.0)), stops
        except TimeUp:
            continue
    raise AssertionError("it never came to an end")


def whole_and_stopped(job: Job, folder: Path) -> tuple[list[Result], list[Result], int]:
    whole = train(job)
    again, stops = stopped_at_every_stretch(lambda c: train(job, checkpoints=c), folder)
    return timeless(whole), timeless(again), stops
