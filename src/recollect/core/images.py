"""Image augmentation and normalisation on the device: random crops and flips."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import final

import torch
from torch import Tensor
from torch.nn import functional

from recollect.core.random import below

GREY = 4  # dimensions of a fleet's batch of images without channels, `[K, n, H, W]`


@final
@dataclass(frozen=True)
class Images:
    """Image preprocessing: random crop and horizontal flip in training, and normalisation.

    Images are uint8, or floats from 0 to 1, with channels `[C, H, W]` or without `[H, W]`. In
    training an image is zero-padded, cropped at a random offset and flipped with probability 1/2;
    its view is an integer that encodes both. Views are a pure function of a run's seed, the step
    and the image's index in the batch, so they are the same on every device.

    >>> images = Images(mean=(0.5,), std=(0.25,), padding=1)
    >>> x = torch.randint(256, (1, 4, 1, 5, 5), dtype=torch.uint8)
    >>> views = images.view_of(torch.tensor([[7, 8, 9, 10]]))
    >>> images.augment(x, views).shape, images.plain(x).shape
    (torch.Size([1, 4, 1, 5, 5]), torch.Size([1, 4, 1, 5, 5]))
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    padding: int = 4
    flip: bool = True

    def view_of(self, words: Tensor) -> Tensor:
        """Map random words, one for each image, to views."""
        offsets = 2 * self.padding + 1
        return below(words, offsets * offsets * (2 if self.flip else 1))

    def augment(self, x: Tensor, views: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Augment images `[K, n, C, H, W]` by views `[K, n]` and normalise them.

        The result has the same shape, in the channels-last memory format.
        """
        if x.dim() == GREY:
            return self.augment(x.unsqueeze(2), views, dtype).squeeze(2)
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

    augment_replay = augment  # replayed images are augmented like incoming ones

    def plain(self, x: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Normalise images `[K, n, C, H, W]` without augmentation, in channels-last memory."""
        if x.dim() == GREY:
            return self.plain(x.unsqueeze(2), dtype).squeeze(2)
        return self._normal(x.movedim(-3, -1).contiguous(), dtype).movedim(-1, -3)

    def _normal(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        white = 1.0 if x.is_floating_point() else 255.0
        scale, shift = _affine(self.mean, self.std, dtype, x.device, white)
        return torch.addcmul(shift, x, scale)


def as_input(x: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Scale uint8 images to [0, 1], convert other floats to `dtype`, and pass integers through.

    >>> as_input(torch.tensor([0, 255], dtype=torch.uint8))
    tensor([0., 1.])
    """
    if x.dtype == torch.uint8:
        return torch.mul(x, _scale(dtype))
    return x.to(dtype) if x.is_floating_point() else x


@cache
def _scale(dtype: torch.dtype) -> Tensor:
    return torch.tensor(1 / 255, dtype=dtype)


@cache
def _affine(
    mean: tuple[float, ...],
    std: tuple[float, ...],
    dtype: torch.dtype,
    device: torch.device,
    white: float,
) -> tuple[Tensor, Tensor]:
    middle, spread = torch.tensor(mean, dtype=torch.float64), torch.tensor(std, dtype=torch.float64)
    scale, shift = 1 / (white * spread), -middle / spread
    return scale.to(device, dtype), shift.to(device, dtype)
