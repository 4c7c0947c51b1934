"""From how an example is stored to what a network reads."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

__all__ = ["as_input"]


def as_input(x: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Images of bytes become numbers in [0, 1]; other numbers stay as they are.

    >>> as_input(torch.tensor([0, 255], dtype=torch.uint8))
    tensor([0., 1.])
    """
    if x.dtype == torch.uint8:
        return torch.mul(x, _scale(dtype))
    return x.to(dtype) if x.is_floating_point() else x


@cache
def _scale(dtype: torch.dtype) -> Tensor:
    return torch.tensor(1 / 255, dtype=dtype)
