"""Pictures in files, decoded by Pillow, which is needed only where a data set is converted."""

from __future__ import annotations

import io
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from recollect.errors import DataError

__all__ = ["decode", "decoder"]


def decoder() -> ModuleType:
    """Pillow's module of images; call it before anything long that will need a decoder."""
    try:
        from PIL import Image
    except ImportError as problem:
        raise DataError(
            "PNG and JPEG files are decoded by Pillow, which is not installed: "
            "run pip install pillow, or name a folder with a converted file (.safetensors)"
        ) from problem
    return Image


def decode(data: bytes, name: str, height: int, width: int) -> NDArray[np.uint8]:
    """The pixels of a PNG or JPEG file, `[3, height, width]`; a grey one is given three channels.

    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.new("L", (2, 1), color=7).save(file, "PNG")
    >>> decode(file.getvalue(), "grey.png", height=1, width=2).tolist()
    [[[7, 7]], [[7, 7]], [[7, 7]]]
    """
    image = decoder()
    try:
        with image.open(io.BytesIO(data), formats=("PNG", "JPEG")) as picture:
            if picture.size != (width, height):
                raise DataError(
                    f"{name} is a picture of {picture.size[0]}x{picture.size[1]} pixels and "
                    f"{width}x{height} were expected; replace it by the original file"
                )
            pixels = np.asarray(picture.convert("RGB"))  # [height, width, 3]
    # Pillow raises SyntaxError for some broken PNG files.
    except (OSError, SyntaxError, ValueError, EOFError) as problem:
        raise DataError(
            f"{name} is not a whole PNG or JPEG file ({problem}); replace it by the original file"
        ) from problem
    return pixels.transpose(2, 0, 1)
