"""What arrives on MNIST-360: the first batch of each of its 27 pairs of digits."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, final

import numpy as np
import torch

from recollect.experiments.figures.look import caption, new_figure
from recollect.streams import Stream
from recollect.streams.mnist360 import DIGITS, ROUNDS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["BatchesData", "Shown", "data", "draw", "mosaic"]

SIDE = 3


@final
@dataclass(frozen=True)
class Shown:
    """The batch that opens a pair: images as rows of pixels from 0 to 255, and their labels."""

    images: tuple[tuple[tuple[int, ...], ...], ...]
    labels: tuple[int, ...]


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


def draw(drawn: BatchesData) -> Figure:
    """A row for each round, a column for each pair; nine images in each place."""
    with new_figure(ROUNDS, DIGITS, 11, 4.6) as (figure, axes):
        for number, (batch, place) in enumerate(zip(drawn.batches, axes, strict=True)):
            place.imshow(mosaic(batch), cmap="gray_r", vmin=0, vmax=255, interpolation="nearest")
            first, second = number % DIGITS, (number + 1) % DIGITS
            place.set_title(f"{first} and {second}", fontsize=9, loc="center")
            place.set(xticks=[], yticks=[])
            place.spines[:].set(visible=True, color="#cccccc")
            if first == 0:
                place.set_ylabel(f"round {number // DIGITS + 1}")
        caption(
            figure,
            f"What arrives on {drawn.benchmark}: pairs of digits that keep turning",
            f"The first nine examples of each of the {len(drawn.batches)} pairs, from left to "
            f"right and row by row in order of arrival (seed {drawn.seed}). No one says where a "
            f"pair ends.",
        )
    return figure


def mosaic(batch: Shown) -> np.ndarray:
    """The images of a batch side by side, with a white line between them."""
    images = np.array(batch.images, dtype=np.uint8)
    count, height, width = images.shape
    whole = np.zeros((SIDE * (height + 1) - 1, SIDE * (width + 1) - 1), dtype=np.uint8)
    for number in range(count):
        top, left = (number // SIDE) * (height + 1), (number % SIDE) * (width + 1)
        whole[top : top + height, left : left + width] = images[number]
    return whole
