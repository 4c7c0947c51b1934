"""What arrives on MNIST-360: the first batch of each of its 27 pairs of digits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import final

import numpy as np
import torch

from recollect.experiments.figures.chart import Chart
from recollect.experiments.figures.drawing import Drawing, Plot
from recollect.streams import Stream
from recollect.streams.mnist360 import DIGITS

__all__ = ["BatchesData", "Shown", "data", "drawing", "mosaic"]

SIDE = 3


@final
@dataclass(frozen=True)
class Shown:
    """The batch that opens a pair: images as rows of pixels from 0 to 255, and their labels."""

    images: tuple[tuple[tuple[int, ...], ...], ...]
    labels: tuple[int, ...]

    def __post_init__(self) -> None:
        if not 0 < len(self.images) == len(self.labels) <= SIDE**2:
            raise ValueError(f"a batch has up to {SIDE**2} images and a label for each")
        if len({(len(image), len(row)) for image in self.images for row in image}) != 1:
            raise ValueError("the images of a batch have one shape")
        if max(max(row) for image in self.images for row in image) > 255:
            raise ValueError("pixels are from 0 to 255")


@final
@dataclass(frozen=True)
class BatchesData:
    """A batch for every pair, in order of arrival."""

    benchmark: str
    seed: int
    batches: tuple[Shown, ...]


def data(stream: Stream, seed: int = 0) -> BatchesData:
    """The first nine examples of each pair, as a run with this seed meets them."""
    parts = stream.parts(0)
    starts = torch.tensor([0, *accumulate(parts)][:-1])
    sizes = torch.tensor(parts).clamp(max=SIDE**2)
    places = torch.cat([start + torch.arange(n) for start, n in zip(starts, sizes, strict=True)])
    seeds = torch.tensor([seed])
    x, y = stream.pick(seeds, 0, places[None])
    cut = sizes.tolist()
    pairs = zip(torch.split(x[0], cut), torch.split(y[0], cut), strict=True)
    return BatchesData(
        stream.name,
        seed,
        tuple(
            Shown(
                tuple(tuple(tuple(row) for row in image) for image in images.tolist()),
                tuple(labels.tolist()),
            )
            for images, labels in pairs
        ),
    )


def drawing(drawn: BatchesData) -> Drawing:
    """A row for each round, a column for each pair; nine images in each plot."""
    return Drawing(
        f"What arrives on {drawn.benchmark}: pairs of digits that keep turning",
        f"The first nine examples of each of the {len(drawn.batches)} pairs, from left to right "
        f"and row by row in order of arrival (seed {drawn.seed}). No one says where a pair ends.",
        [
            Plot(
                f"{number % DIGITS} and {(number + 1) % DIGITS}",
                partial(_draw, number, batch),
                drawn.benchmark,
            )
            for number, batch in enumerate(drawn.batches)
        ],
        columns=DIGITS,
        size=(1.15, 1.2),
        images=True,
    )


def mosaic(batch: Shown) -> np.ndarray:
    """The images of a batch side by side, with a white line between them."""
    images = np.array(batch.images, dtype=np.uint8)
    count, height, width = images.shape
    whole = np.zeros((SIDE * (height + 1) - 1, SIDE * (width + 1) - 1), dtype=np.uint8)
    for number in range(count):
        top, left = (number // SIDE) * (height + 1), (number % SIDE) * (width + 1)
        whole[top : top + height, left : left + width] = images[number]
    return whole


def _draw(number: int, batch: Shown, chart: Chart) -> None:
    chart.image(mosaic(batch))
    chart.axes.spines[:].set(visible=True, color="#cccccc")
    if number % DIGITS == 0:
        chart.axes.set_ylabel(f"round {number // DIGITS + 1}")
