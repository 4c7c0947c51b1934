import math
import struct

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from recollect.errors import DataError
from recollect.streams.data.idx import parse_idx


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
    read = parse_idx(as_idx(array), array.dim(), "file")
    assert read.dtype == torch.uint8
    assert read.shape == array.shape
    assert torch.equal(read, array)


@given(arrays, st.data())
def test_every_truncation_and_extension_is_refused(array: Tensor, data: st.DataObject) -> None:
    whole = as_idx(array)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(DataError, match="file"):
        parse_idx(whole[:cut], array.dim(), "file")
    with pytest.raises(DataError, match=f"{len(whole) + 1} bytes and {len(whole)} were expected"):
        parse_idx(whole + b"x", array.dim(), "file")


@pytest.mark.parametrize("byte", [0, 1, 2, 3])
def test_a_wrong_magic_number_is_refused(byte: int) -> None:
    content = bytearray(as_idx(torch.zeros(2, 2, dtype=torch.uint8)))
    content[byte] ^= 1
    with pytest.raises(DataError, match="labels is not an idx file of bytes in 2 dimensions"):
        parse_idx(bytes(content), 2, "labels")


def test_images_are_not_labels() -> None:
    images = as_idx(torch.zeros(2, 3, 3, dtype=torch.uint8))
    with pytest.raises(DataError, match=r"starts with 00000803 and 00000801 was expected"):
        parse_idx(images, 1, "labels")


def test_a_header_that_promises_too_much_is_refused_without_allocating() -> None:
    header = struct.pack(">BBBB3I", 0, 0, 8, 3, 2**32 - 1, 2**32 - 1, 2**32 - 1)
    with pytest.raises(DataError, match="were expected"):
        parse_idx(header + b"few", 3, "images")


def test_the_array_can_be_written_to() -> None:
    array = parse_idx(as_idx(torch.tensor([1, 2], dtype=torch.uint8)), 1, "file")
    array[0] = 9
    assert array.tolist() == [9, 2]
