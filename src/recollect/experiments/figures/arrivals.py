"""What arrives on a benchmark with tasks: the first examples of each, in their order."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from recollect.experiments.figures.chart import Chart
from recollect.experiments.figures.drawing import Drawing, Plot
from recollect.streams import Stream, TaskStream
from recollect.streams.pixels import angle

__all__ = ["ArrivalsData", "Task", "data", "drawing"]

SHOWN = 8
ROWS = 10  # more tasks than these stand in a second column
LARGEST = 32  # pixels; larger images are shrunk
GAP = 2
CIFAR10 = ("plane", "car", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

Images = tuple[tuple[tuple[int | tuple[int, ...], ...], ...], ...]


@final
@dataclass(frozen=True)
class Task:
    """The examples that open a task: pixels from 0 to 255 (or three colours), and their labels."""

    images: Images
    labels: tuple[int, ...]
    count: int
    degrees: float | None


@final
@dataclass(frozen=True)
class ArrivalsData:
    """The first examples of every task, in order of arrival."""

    benchmark: str
    seed: int
    tasks: tuple[Task, ...]


def data(stream: Stream, seed: int = 0) -> ArrivalsData:
    """The first eight examples of each task, as a run with this seed meets them."""
    tasks = tuple(_task(stream, torch.tensor([seed]), task) for task in range(stream.tasks))
    return ArrivalsData(stream.name, seed, tasks)


def drawing(drawn: ArrivalsData) -> Drawing:
    """A row for each task, from the first on; its label stands under each image."""
    return Drawing(
        f"What arrives on {drawn.benchmark}: {len(drawn.tasks)} tasks",
        f"The first {SHOWN} examples of each task from left to right in order of arrival,\n"
        f"with their labels (seed {drawn.seed}).",
        [
            Plot("", partial(_draw, number, task, drawn.benchmark), drawn.benchmark)
            for number, task in enumerate(drawn.tasks, 1)
        ],
        columns=math.ceil(len(drawn.tasks) / ROWS),
        size=(4.5, 0.74),
        down=True,
        images=True,
    )


def _task(stream: Stream, seeds: Tensor, task: int) -> Task:
    count = sum(stream.parts(task))
    x, y = stream.pick(seeds, task, stream.order(seeds, task, 0, 0, min(SHOWN, count)))
    rotated = isinstance(stream, TaskStream) and stream.view == "rotated"
    turned = angle(seeds, torch.tensor([task])).item() if rotated else None
    return Task(
        _nested(_small(x[0])),
        tuple(y[0].tolist()),
        count,
        None if turned is None else round(math.degrees(turned), 1),
    )


def _small(images: Tensor) -> Tensor:
    """Images `[n, H, W]` or `[n, 3, H, W]`, no larger than they are drawn, with colours last."""
    factor = math.ceil(max(images.shape[-2:]) / LARGEST)
    if factor > 1:
        images = avg_pool2d(images.float(), factor).round().to(images.dtype)
    return images if images.dim() == 3 else images.movedim(1, -1)


def _nested(images: Tensor) -> Images:
    def fixed(value: list[object] | int) -> object:
        return tuple(fixed(each) for each in value) if isinstance(value, list) else value  # type: ignore[arg-type]

    return fixed(images.tolist())  # type: ignore[return-value]


def _draw(number: int, task: Task, benchmark: str, chart: Chart) -> None:
    images = np.array(task.images, dtype=np.uint8)
    grey = images.ndim == 3
    blank = 0 if grey else 255
    padded = np.pad(
        images, [(0, 0), (0, 0), (0, GAP)] + [(0, 0)] * (not grey), constant_values=blank
    )
    chart.image(np.concatenate(list(padded), axis=1))
    wide = padded.shape[2]
    names = CIFAR10 if benchmark == "seq-cifar10" else tuple(map(str, range(1000)))
    axes = chart.axes
    axes.set_xticks(
        [wide * (at + 0.5) - GAP / 2 for at in range(len(images))],
        [names[label] for label in task.labels],
    )
    axes.tick_params(length=0, pad=1, labelsize=7)
    axes.spines[:].set_visible(False)
    turned = "" if task.degrees is None else f"\n{task.degrees:.0f}°"
    axes.set_ylabel(f"task {number}{turned}", rotation=0, ha="right", va="center")
