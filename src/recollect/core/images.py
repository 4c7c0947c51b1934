"""Images of bytes as the input of a network: cropped, flipped and normalised on their device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import final

import torch
from torch import Tensor
from torch.nn import functional

from recollect.core.random import Purpose, below, bits

__all__ = ["Images"]


@final
@dataclass(frozen=True)
class Images:
    """How the images of a benchmark are turned into the input of a network.

    In training an image is padded with black, cropped at a random offset and flipped half of the
    time; its view is a number that encodes both. Views are a pure function of a run's
    seed, the step and the image's row in it, so they are the same on every device.

    >>> images = Images(mean=(0.5,), std=(0.25,), padding=1)
    >>> x = torch.randint(256, (1, 4, 1, 5, 5), dtype=torch.uint8)
    >>> views = images.views(torch.tensor([7]), step=0, steps=1, rows=4)[0]
    >>> images.augment(x, views).shape, images.plain(x).shape
    (torch.Size([1, 4, 1, 5, 5]), torch.Size([1, 4, 1, 5, 5]))
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    padding: int = 4
    flip: bool = True

    def views(
        self, seeds: Tensor, step: int, steps: int, rows: int, purpose: Purpose = Purpose.VIEW
    ) -> Tensor:
        """The views of all images of the coming steps, `[steps, K, rows]`."""
        when = torch.arange(step, step + steps, device=seeds.device)[:, None, None]
        row = torch.arange(rows, device=seeds.device)
        return self.view_of(bits(seeds[:, None], purpose, when, row))

    def view_of(self, words: Tensor) -> Tensor:
        """The view that a random word stands for."""
        offsets = 2 * self.padding + 1
        return below(words, offsets * offsets * (2 if self.flip else 1))

    def augment(self, x: Tensor, views: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Images `[K, n, C, H, W]` in their views `[K, n]`, normalised; channels lie last."""
        *lead, channels, height, width = x.shape
        flat, view = x.flatten(0, 1), views.flatten()
        offsets = 2 * self.padding + 1
        down, right, flipped = view % offsets, view // offsets % offsets, view // offsets**2
        row = torch.arange(height, device=x.device) + down[:, None]
        column = torch.arange(width, device=x.device)
        column = torch.where(flipped[:, None] > 0, width - 1 - column, column) + right[:, None]
        padded = functional.pad(flat, [self.padding] * 4)
        image = torch.arange(len(flat), device=x.device)
        cut = padded[image[:, None, None], :, row[:, :, None], column[:, None, :]]  # [n, H, W, C]
        seen = self._normal(cut, dtype).permute(0, 3, 1, 2)
        return seen.view(*lead, channels, height, width)

    def augment_replay(
        self, x: Tensor, views: Tensor, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Replayed images are augmented like those that arrive."""
        return self.augment(x, views, dtype)

    def plain(self, x: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Images `[K, n, C, H, W]` normalised and not augmented; channels lie last."""
        return self._normal(x.movedim(-3, -1).contiguous(), dtype).movedim(-1, -3)

    def _normal(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        scale, shift = _affine(self.mean, self.std, dtype, x.device)
        return torch.addcmul(shift, x, scale)


@cache
def _affine(
    mean: tuple[float, ...], std: tuple[float, ...], dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """What bytes are multiplied by, and what is added, for every channel."""
    middle, spread = torch.tensor(mean, dtype=torch.float64), torch.tensor(std, dtype=torch.float64)
    scale, shift = 1 / (255 * spread), -middle / spread
    return scale.to(device, dtype), shift.to(device, dtype)
