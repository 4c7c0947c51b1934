"""Views of the pixels of a task: unchanged, permuted or rotated.

A view is an index map from each pixel of the result to its source, so applying it is one gather.
The maps are computed on the CPU, so that they are identical on every device. The view `reordered`
gives each seed another class order (`class_order.py`).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from recollect.core.random import Purpose, bits, permute

View = Literal["plain", "permuted", "rotated", "reordered"]

# Rounding errors decide which of two pixels a source coordinate exactly between them maps to; this
# offset makes the choice the same on every machine.
NUDGE = 1e-9
# Pixels per chunk, chosen to fit into a core's cache.
CHUNK = 1 << 17


class PixelMap(NamedTuple):
    """Source index of each pixel, `[..., P]`, and a mask that is 0 for black pixels."""

    source: Tensor
    inside: Tensor | None = None


def permutation(seeds: Tensor, tasks: Tensor, pixels: int) -> PixelMap:
    """Random pixel permutation for each run and task, `[K, T, P]`."""
    key = bits(seeds[:, None], Purpose.PIXELS, tasks)
    return PixelMap(permute(key[..., None], torch.arange(pixels, device=seeds.device), pixels))


def angle(seeds: Tensor, tasks: Tensor) -> Tensor:
    """Random angle for each run and task, uniform between 0 and pi, `[K, T]`."""
    upper = (bits(seeds[:, None], Purpose.ANGLE, tasks) >> 11) & ((1 << 53) - 1)
    return upper.double() / (1 << 53) * math.pi


def rotation(angles: Tensor, height: int, width: int) -> PixelMap:
    """Return the map that rotates an image about its centre, for angles `[...]` in radians.

    Positive angles are counter-clockwise. Pixels are sampled by nearest neighbour; pixels outside
    the image are black.

    >>> rotation(torch.tensor([math.pi / 2]), 2, 2).source
    tensor([[1, 3, 0, 2]])
    """
    angles = angles.double().cpu()[..., None, None]
    cos, sin = angles.cos(), angles.sin()
    middle_row, middle_column = (height - 1) / 2, (width - 1) / 2
    down = (torch.arange(height, dtype=torch.float64) - middle_row)[:, None]
    right = torch.arange(width, dtype=torch.float64) - middle_column
    half = 0.5 + NUDGE
    row = (sin * right + cos * down).add_(middle_row + half).floor_().to(torch.int32)
    column = (cos * right - sin * down).add_(middle_column + half).floor_().to(torch.int32)
    inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
    source = (row * width + column) * inside
    return PixelMap(source.flatten(-2).long(), inside.flatten(-2).to(torch.uint8))


def through(images: Tensor, seen: PixelMap) -> Tensor:
    """Apply a pixel map to images `[..., H, W]`; the leading axes of the map are broadcast."""
    flat = images.flatten(-2)
    result = flat.gather(-1, seen.source.expand(flat.shape))
    if seen.inside is not None:
        result *= seen.inside
    return result.view(images.shape)


def rotate(images: Tensor, angles: Tensor) -> Tensor:
    """Rotate images `[K, n, H, W]` about their centres by angles `[K, n]` or `[1, n]`."""
    height, width = images.shape[-2:]
    result = torch.empty_like(images)
    step = max(1, CHUNK // (angles.shape[0] * height * width))
    for start in range(0, images.shape[1], step):
        here = slice(start, start + step)
        seen = _to(rotation(angles[:, here], height, width), images.device)
        result[:, here] = through(images[:, here], seen)
    return result


@lru_cache(maxsize=32)
def pixel_map(
    view: View,
    seeds: tuple[int, ...],
    tasks: tuple[int, ...],
    height: int,
    width: int,
    device: str,
    channels: int = 1,
) -> PixelMap:
    """Return the maps of rotated or permuted pixels, `[K, T, P]`, cached for the batches of a task.

    All channels of an image use the same map; P counts the pixels of all channels.
    """
    runs, numbers = torch.tensor(seeds, dtype=torch.int64), torch.tensor(tasks)
    if view == "permuted":
        seen = permutation(runs, numbers, height * width)
    else:
        seen = rotation(angle(runs, numbers), height, width)
    first = torch.arange(channels)[:, None] * height * width
    source = (seen.source[..., None, :] + first).flatten(-2)
    inside = None if seen.inside is None else seen.inside.repeat(1, 1, channels)
    return _to(PixelMap(source, inside), torch.device(device))


def _to(seen: PixelMap, device: torch.device) -> PixelMap:
    inside = None if seen.inside is None else seen.inside.to(device)
    return PixelMap(seen.source.to(device), inside)
