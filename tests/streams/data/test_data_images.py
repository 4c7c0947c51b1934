import io
import sys

import numpy as np
import pytest
from PIL import Image

from recollect.errors import DataError
from recollect.streams.data.formats import decode, decoder


def encoded(pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], form: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, form)
    return file.getvalue()


def test_colour_is_read_channel_first() -> None:
    pixels = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    read = decode(encoded(pixels), "a.png", height=2, width=3)
    assert read.dtype == np.uint8
    assert np.array_equal(read, pixels.transpose(2, 0, 1))


@pytest.mark.parametrize("form", ["PNG", "JPEG"])
def test_grey_gets_three_equal_channels(form: str) -> None:
    pixels = np.full((8, 8), 100, dtype=np.uint8)
    read = decode(encoded(pixels, form), "grey", height=8, width=8)
    assert read.shape == (3, 8, 8)
    assert np.array_equal(read, np.full((3, 8, 8), 100))


def test_a_picture_of_another_size_is_refused() -> None:
    with pytest.raises(DataError, match=r"a\.png is a picture of 3x2 pixels and 2x3 were expected"):
        decode(encoded(np.zeros((2, 3, 3), dtype=np.uint8)), "a.png", height=3, width=2)


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF"])
def test_what_is_no_whole_picture_is_refused(form: str) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3)).astype(np.uint8)
    whole = encoded(noise, form)
    for data in (b"", b"text", whole[: len(whole) // 2]):
        with pytest.raises(DataError, match=r"a\.jpg is not a whole PNG or JPEG file"):
            decode(data, "a.jpg", height=64, width=64)


def test_without_pillow_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(DataError, match="run pip install pillow"):
        decoder()
