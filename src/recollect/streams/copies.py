"""Tensors, and their copies on every device that has asked for them."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

__all__ = ["Copies", "take"]


@final
class Copies:
    """Tensors that are copied to a device once, the first time that they are needed there.

    A stream's tensors follow the device of the seeds, so a stream need not be moved to a device.

    >>> images, labels = Copies(torch.zeros(3, 2), torch.zeros(3)).on(torch.device("cpu"))
    >>> images.shape
    torch.Size([3, 2])
    """

    def __init__(self, *tensors: Tensor) -> None:
        self._home = tensors
        self._copies: dict[torch.device, tuple[Tensor, ...]] = {}

    def on(self, device: torch.device) -> tuple[Tensor, ...]:
        """The tensors on `device`; not to be written to."""
        if device not in self._copies:
            self._copies[device] = tuple(tensor.to(device) for tensor in self._home)
        return self._copies[device]


def take(data: Tensor, ids: Tensor) -> Tensor:
    """The rows `ids` of `data`: the same as `data[ids]`, but copied row by row, far faster.

    >>> take(torch.tensor([[5, 6], [7, 8]]), torch.tensor([[1], [0]]))
    tensor([[[7, 8]],
    <BLANKLINE>
            [[5, 6]]])
    """
    return data.index_select(0, ids.flatten()).view(*ids.shape, *data.shape[1:])
