import math
import struct

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from recollect.streams.data.mnist import parse_idx


def as_idx(array: Tensor) -> bytes:
    header = struct.pack(f">BBBB{array.dim()}I", 0, 0, 8, array.dim(), *array.shape)
    return header + bytes(array.flatten().tolist())


arrays = st.lists(st.integers(0, 5), min_size=1, max_size=4).flatmap(
    lambda shape: st.binary(min_size=math.prod(shape), max_size=math.prod(shape)).map(
        lambda content: torch.tensor(list(content), dtype=torch.uint8).reshape(shape)
    )
)


@given(arrays)
def test_a_written_array_is_read_back(array: Tensor) -> None:
    read = parse_idx(as_idx(array))
    assert read.dtype == torch.uint8
    assert read.shape == array.shape
    assert torch.equal(read, array)


def test_the_array_can_be_written_to() -> None:
    array = parse_idx(as_idx(torch.tensor([1, 2], dtype=torch.uint8)))
    array[0] = 9
    assert array.tolist() == [9, 2]
