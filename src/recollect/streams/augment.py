"""Data augmentation for custom streams: image augmentation, or a user's transform."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from recollect.core.images import Images
from recollect.core.packing import Packing
from recollect.core.source import source_of
from recollect.core.transforms import Transform, Transforms
from recollect.errors import InputError

CHANNELS = (1, 3, 4)
Statistics = tuple[Sequence[float], Sequence[float]]


def augmentation(
    x: Tensor,
    crop: int = 0,
    flip: bool = False,
    normalise: bool | Statistics = False,
    transform: Transform | None = None,
    replay_transform: Transform | None = None,
    packing: Packing | None = None,
) -> Images | Transforms | None:
    """Build the augmentation of training examples `[N, ...]` or packed rows, or None.

    >>> x = torch.randint(256, (50, 3, 8, 8), dtype=torch.uint8)
    >>> images = augmentation(x, crop=1, flip=True, normalise=((0.5, 0.5, 0.5), (0.2, 0.2, 0.2)))
    >>> images.plain(x[None]).shape if images else None
    torch.Size([1, 50, 3, 8, 8])
    """
    own = {"transform": transform, "replay_transform": replay_transform}
    for name, function in own.items():
        if function is not None and not callable(function):
            raise InputError(f"{name} must be a function of a batch, not {function!r}")
    given = any(function is not None for function in own.values())
    if not (crop or flip or normalise is not False):
        sources = tuple(source_of(function) for function in own.values())
        if packing is not None:
            transform = transform and packing.over(transform)
            replay_transform = replay_transform and packing.over(replay_transform)
        return Transforms(transform, replay_transform, sources) if given else None
    if packing is not None:
        raise InputError(
            "crop, flip and normalise are for images, and these examples have several tensors: "
            "pass a transform, which gets all of them"
        )
    if given:
        raise InputError(
            "crop, flip and normalise do not go with a transform of your own: let it crop and "
            "flip, and normalise x before"
        )
    if x.dim() not in (3, 4):
        raise InputError(
            f"crop, flip and normalise are for images, [N, C, H, W] or grey [N, H, W], and x has "
            f"the shape {list(x.shape)}: reshape it, or leave them out"
        )
    check_channels_first(x)
    if not isinstance(crop, int) or not 0 <= crop < min(x.shape[-2:]):
        raise InputError(
            f"crop={crop!r} must be a number of pixels from 0 to {min(x.shape[-2:]) - 1}, by which "
            "images are padded before they are cropped"
        )
    mean, std = _statistics(x, normalise)
    return Images(mean, std, padding=crop, flip=bool(flip))


def check_channels_first(x: Tensor) -> None:
    """Raise an `InputError` for images `[N, H, W, C]`."""
    if x.dim() == 4 and x.shape[-1] in CHANNELS and x.shape[1] not in CHANNELS:
        raise InputError(
            f"an example has the shape {list(x.shape[1:])}, which looks like an image with its "
            f"channels last: transpose x to [N, C, H, W], as with x.transpose(0, 3, 1, 2) in numpy"
        )


def _statistics(
    x: Tensor, normalise: bool | Statistics
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel, for pixel values scaled to 0..1."""
    channels = x.shape[1] if x.dim() == 4 else 1
    if normalise is False:
        return (0.0,) * channels, (1.0,) * channels
    if normalise is True:
        planes = x.view(len(x), channels, -1).transpose(0, 1).flatten(1)  # [C, N * H * W]
        white = 1.0 if x.is_floating_point() else 255.0
        found = [(plane.double() / white) for plane in planes]
        spread = [max(float(plane.std()), 1e-6) for plane in found]
        return tuple(float(plane.mean()) for plane in found), tuple(spread)
    try:
        mean, std = (tuple(float(value) for value in values) for values in normalise)
    except (TypeError, ValueError):
        raise InputError(
            f"normalise is True or a pair (mean, std) with a number for each channel, "
            f"not {normalise!r}"
        ) from None
    good = all(torch.tensor(mean + std).isfinite()) and all(value > 0 for value in std)
    if len(mean) != channels or len(std) != channels or not good:
        raise InputError(
            f"normalise={normalise!r} must have a mean and a standard deviation above 0 for each "
            f"of {channels} channels"
        )
    return mean, std
