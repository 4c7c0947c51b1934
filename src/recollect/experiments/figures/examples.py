"""Figures of the first examples of each task of a benchmark, or of each pair of MNIST-360."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, final

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from recollect.experiments.figures.chart import Chart
from recollect.experiments.figures.drawing import Drawing, Plot
from recollect.streams import Stream, TaskStream
from recollect.streams.mnist360 import DIGITS
from recollect.streams.pixels import angle

SHOWN = 8  # examples per task
SIDE = 3  # the examples of a pair form a square of this side
ROWS = 10  # further tasks go into a second column
LARGEST = 32  # pixels; larger images are downscaled
GAP = 2
CIFAR10 = ("plane", "car", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


@final
@dataclass(frozen=True)
class Task:
    """First examples of a task: pixels from 0 to 255 (grey or RGB), and their labels."""

    images: tuple[tuple[tuple[int | tuple[int, ...], ...], ...], ...]
    labels: tuple[int, ...]
    count: int
    degrees: float | None


@final
@dataclass(frozen=True)
class ArrivalsData:
    """First examples of every task, in stream order."""

    benchmark: str
    seed: int
    tasks: tuple[Task, ...]


@final
@dataclass(frozen=True)
class Shown:
    """First batch of a pair: images as rows of pixels from 0 to 255, and their labels."""

    images: tuple[tuple[tuple[int, ...], ...], ...]
    labels: tuple[int, ...]

    def __post_init__(self) -> None:
        if not 0 < len(self.images) == len(self.labels) <= SIDE**2:
            raise ValueError(f"a batch must have at most {SIDE**2} images and a label for each")
        if len({(len(image), len(row)) for image in self.images for row in image}) != 1:
            raise ValueError("the images of a batch must have the same shape")
        if max(max(row) for image in self.images for row in image) > 255:
            raise ValueError("pixels must be from 0 to 255")


@final
@dataclass(frozen=True)
class BatchesData:
    """First batch of every pair, in stream order."""

    benchmark: str
    seed: int
    batches: tuple[Shown, ...]


def arrivals(stream: Stream, seed: int = 0) -> ArrivalsData:
    """Return the first eight examples of each task, in the order of a run with this seed."""
    seeds = torch.tensor([seed])
    rotated = isinstance(stream, TaskStream) and stream.view == "rotated"
    tasks = []
    for task in range(stream.tasks):
        count = sum(stream.parts(task))
        x, y = stream.pick(seeds, task, stream.order(seeds, task, 0, 0, min(SHOWN, count)))
        turned = math.degrees(angle(seeds, torch.tensor([task])).item()) if rotated else None
        degrees = None if turned is None else round(turned, 1)
        tasks.append(Task(_nested(_small(x[0])), tuple(y[0].tolist()), count, degrees))
    return ArrivalsData(stream.name, seed, tuple(tasks))


def draw_arrivals(drawn: ArrivalsData) -> Drawing:
    """Draw one row per task, with the label below each image."""
    return Drawing(
        f"What arrives on {drawn.benchmark}: {len(drawn.tasks)} tasks",
        f"The first {SHOWN} examples of each task from left to right in order of arrival,\n"
        f"with their labels (seed {drawn.seed}).",
        [
            Plot("", partial(_task_panel, number, task, drawn.benchmark), drawn.benchmark)
            for number, task in enumerate(drawn.tasks, 1)
        ],
        columns=math.ceil(len(drawn.tasks) / ROWS),
        size=(4.5, 0.74),
        down=True,
        images=True,
    )


def batches(stream: Stream, seed: int = 0) -> BatchesData:
    """Return the first nine examples of each pair, in the order of a run with this seed."""
    parts = stream.parts(0)
    made = []
    for start, count in zip([0, *accumulate(parts)], parts, strict=False):
        order = torch.arange(start, start + min(count, SIDE**2))
        x, y = stream.pick(torch.tensor([seed]), 0, order[None])
        made.append(Shown(_nested(x[0]), tuple(y[0].tolist())))
    return BatchesData(stream.name, seed, tuple(made))


def draw_batches(drawn: BatchesData) -> Drawing:
    """Draw one row per round and one column per pair, with nine images in each plot."""
    return Drawing(
        f"What arrives on {drawn.benchmark}: {len(drawn.batches)} pairs of digits",
        f"The first nine examples of each of the {len(drawn.batches)} pairs, from left to right "
        f"and row by row in order of arrival (seed {drawn.seed}). Pair ends are not announced.",
        [
            Plot(
                f"{number % DIGITS} and {(number + 1) % DIGITS}",
                partial(_pair_panel, number, batch),
                drawn.benchmark,
            )
            for number, batch in enumerate(drawn.batches)
        ],
        columns=DIGITS,
        size=(1.15, 1.2),
        images=True,
    )


def _small(images: Tensor) -> Tensor:
    """Downscale images `[n, H, W]` or `[n, 3, H, W]` for drawing, with channels last."""
    factor = math.ceil(max(images.shape[-2:]) / LARGEST)
    if factor > 1:
        images = avg_pool2d(images.float(), factor).round().to(images.dtype)
    return images if images.dim() == 3 else images.movedim(1, -1)


def _nested(values: Tensor) -> Any:
    return tuple(map(_nested, values)) if values.dim() > 1 else tuple(values.tolist())


def _mosaic(images: np.ndarray, columns: int, gap: int) -> np.ndarray:
    """Tile images `[n, H, W]` or `[n, H, W, 3]` in rows, with white gaps."""
    rows = math.ceil(len(images) / columns)
    height, width = images.shape[1] + gap, images.shape[2] + gap
    white = 0 if images.ndim == 3 else 255
    whole = np.full((rows * height, columns * width, *images.shape[3:]), white, dtype=np.uint8)
    for number, image in enumerate(images):
        top, left = number // columns * height, number % columns * width
        whole[top : top + len(image), left : left + image.shape[1]] = image
    return whole[:-gap, :-gap]


def _task_panel(number: int, task: Task, benchmark: str, chart: Chart) -> None:
    images = np.array(task.images, dtype=np.uint8)
    chart.image(_mosaic(images, len(images), GAP))
    wide = images.shape[2] + GAP
    names = CIFAR10 if benchmark.endswith("-cifar10") else tuple(map(str, range(1000)))
    axes = chart.axes
    axes.set_xticks(
        [wide * (at + 0.5) - GAP / 2 for at in range(len(images))],
        [names[label] for label in task.labels],
    )
    axes.tick_params(length=0, pad=1, labelsize=7)
    axes.spines[:].set_visible(False)
    turned = "" if task.degrees is None else f"\n{task.degrees:.0f}°"
    axes.set_ylabel(f"task {number}{turned}", rotation=0, ha="right", va="center")


def _pair_panel(number: int, batch: Shown, chart: Chart) -> None:
    chart.image(_mosaic(np.array(batch.images, dtype=np.uint8), SIDE, 1))
    chart.axes.spines[:].set(visible=True, color="#cccccc")
    if number % DIGITS == 0:
        chart.axes.set_ylabel(f"round {number // DIGITS + 1}")
