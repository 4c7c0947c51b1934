"""Send several tensors from the host to a device with one copy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import final

import numpy as np
import torch
from torch import Tensor

ALIGNED = 64  # bytes
CPU = torch.device("cpu")

Inputs = Mapping[str, Tensor]


@final
class FixedInputs:
    """Named tensors at fixed addresses on a device, filled with others of the same layout.

    Those that come from the host lie side by side, so that one copy transfers all of them. Those
    that are already on the device are copied there, all tensors of a type at once.

    >>> fixed = FixedInputs({"x": torch.zeros(2), "n": torch.zeros(1, dtype=torch.int64)}, CPU)
    >>> fixed.fill({"x": torch.tensor([1.0, 2.0]), "n": torch.tensor([3])})
    >>> fixed.tensors
    {'x': tensor([1., 2.]), 'n': tensor([3])}
    """

    def __init__(self, like: Inputs, device: torch.device, *, pinned: bool = False) -> None:
        offsets, total = {}, 0
        for name, tensor in like.items():
            if tensor.device == CPU:
                offsets[name] = total
                total += math.ceil(extent(tensor) * tensor.itemsize / ALIGNED) * ALIGNED
        self._here = self._staged = torch.empty(total, dtype=torch.uint8, device=device)
        self._sent: torch.cuda.Event | None = None
        if device != CPU:
            pinned = pinned and device.type == "cuda"
            self._staged = torch.empty(total, dtype=torch.uint8, pin_memory=pinned)
            self._sent = torch.cuda.Event() if pinned else None  # type: ignore[no-untyped-call]
        self.tensors: dict[str, Tensor] = {}
        self._arrays: dict[str, np.ndarray] = {}  # NumPy copies small tensors faster
        self._groups: dict[object, tuple[list[str], list[Tensor]]] = {}
        for name, tensor in like.items():
            sent = name in offsets
            here = within(self._here, offsets[name], tensor) if sent else torch.empty_like(tensor)
            self.tensors[name] = here
            to = within(self._staged, offsets[name], tensor) if sent else here
            if sent and tensor.dtype != torch.bfloat16:
                self._arrays[name] = to.numpy()
                continue
            names, filled = self._groups.setdefault(sent or tensor.dtype, ([], []))
            names.append(name)
            filled.append(to)

    def fill(self, inputs: Inputs) -> None:
        """Copy tensors here; the caller may change them as soon as this returns."""
        if self._sent is not None:
            self._sent.synchronize()
        for name, array in self._arrays.items():
            np.copyto(array, inputs[name].numpy())
        for names, filled in self._groups.values():
            torch._foreach_copy_(filled, [inputs[name] for name in names])
        if self._staged is not self._here:
            # From pageable memory, this returns as soon as the driver has a copy of the bytes.
            self._here.copy_(self._staged, non_blocking=True)
            if self._sent is not None:
                self._sent.record()

    def wipe(self) -> None:
        """Overwrite all copies with zeros."""
        self._staged.zero_()
        for tensor in self.tensors.values():
            tensor.zero_()


def sent(inputs: Inputs, device: torch.device) -> Inputs:
    """Return the inputs on a device; those of the host are sent with one copy."""
    if device.type == "cpu":
        return inputs
    fixed = FixedInputs(inputs, device)
    fixed.fill(inputs)
    return fixed.tensors


def extent(tensor: Tensor) -> int:
    """Return the number of elements from the first to the last one of a tensor in memory.

    >>> extent(torch.zeros(3, 4)), extent(torch.zeros(3, 4)[:, :2]), extent(torch.zeros(0))
    (12, 10, 0)
    """
    if not tensor.numel():
        return 0
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return 1 + sum((size - 1) * step for size, step in pairs)


def within(buffer: Tensor, offset: int, like: Tensor) -> Tensor:
    """Return a tensor of the layout of another one, at an offset in bytes in a buffer.

    Unlike a view of the buffer, it has its own version counter.
    """
    found = torch.empty(0, dtype=like.dtype, device=buffer.device)
    where = offset // like.itemsize
    return found.set_(buffer.untyped_storage(), where, like.shape, like.stride())
