"""Images of bytes as a network reads them: cropped, flipped and normalised on their device."""

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
    """How the images of a benchmark are shown to a network.

    In training an image is padded with black, cropped at a random place and flipped half of the
    time; its view is a number that says where and whether. Views are a pure function of a run's
    seed, the step and the image's row in it, so they are the same on every device.

    >>> images = Images(mean=(0.5,), std=(0.25,), padding=1)
    >>> x = torch.randint(256, (1, 4, 1, 5, 5), dtype=torch.uint8)
    >>> views = images.views(torch.tensor([7]), step=0, steps=1, rows=4)[0]
    >>> images.shown(x, views).shape, images.plain(x).shape
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
        places = 2 * self.padding + 1
        count = places * places * (2 if self.flip else 1)
        return below(bits(seeds[:, None], purpose, when, row), count)

    def shown(self, x: Tensor, views: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Images `[K, n, C, H, W]` in their views `[K, n]`, normalised; channels lie last."""
        *lead, channels, height, width = x.shape
        flat, view = x.flatten(0, 1), views.flatten()
        places = 2 * self.padding + 1
        down, right, flipped = view % places, view // places % places, view // places**2
        row = torch.arange(height, device=x.device) + down[:, None]
        column = torch.arange(width, device=x.device)
        column = torch.where(flipped[:, None] > 0, width - 1 - column, column) + right[:, None]
        padded = functional.pad(flat, [self.padding] * 4)
        image = torch.arange(len(flat), device=x.device)
        cut = padded[image[:, None, None], :, row[:, :, None], column[:, None, :]]  # [n, H, W, C]
        seen = self._normal(cut, dtype).permute(0, 3, 1, 2)
        return seen.view(*lead, channels, height, width)

    def again(self, x: Tensor, views: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """What is replayed is shown as what arrives."""
        return self.shown(x, views, dtype)

    def plain(self, x: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Images `[K, n, C, H, W]` as they are, normalised, for testing; channels lie last."""
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
