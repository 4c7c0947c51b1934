"""The idx format of MNIST: a magic number, the dimensions, then a byte for each pixel or label."""

from __future__ import annotations

import math
import struct

import numpy as np
import torch
from torch import Tensor

from recollect.errors import DataError

__all__ = ["parse_idx"]

UNSIGNED_BYTE = 0x08


def parse_idx(data: bytes, dims: int, name: str) -> Tensor:
    """The array in the bytes of an idx file, as uint8; `name` is the file's, for the errors.

    >>> parse_idx(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1]), dims=1, name="labels")
    tensor([7, 2, 1], dtype=torch.uint8)
    """
    magic = bytes([0, 0, UNSIGNED_BYTE, dims])
    if data[:4] != magic:
        raise DataError(
            f"{name} is not an idx file of bytes in {dims} dimensions: "
            f"it starts with {data[:4].hex() or 'nothing'} and {magic.hex()} was expected; "
            "replace it by the original file"
        )
    start = 4 + 4 * dims
    if len(data) < start:
        raise DataError(
            f"{name} is truncated within its header of {start} bytes; "
            "replace it by the original file"
        )
    shape = struct.unpack(f">{dims}I", data[4:start])
    if len(data) != start + math.prod(shape):
        raise DataError(
            f"{name} has {len(data)} bytes and {start + math.prod(shape)} were expected "
            f"for the shape {shape} in its header; replace it by the original file"
        )
    values = np.frombuffer(data, dtype=np.uint8, offset=start)
    # Tensors may be written to, and bytes may not: hence the copy.
    return torch.from_numpy(values.reshape(shape).copy())
