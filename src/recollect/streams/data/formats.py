"""Read the formats of published data sets: archives, pickled batches, PNG and JPEG pictures."""

from __future__ import annotations

import io
import pickle
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect.errors import DataError
from recollect.streams.data.files import Report

PROGRESS = 10_000
ALLOWED = ("numpy.core.multiarray._reconstruct", "numpy.ndarray", "numpy.dtype")


def parse_pickled(
    data: bytes, name: str, labels: str = "labels"
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Read rows `[N, D]` and labels `[N]` from a pickled CIFAR batch, without running its code.

    Unpickling calls the functions that a pickle names. All names are refused except three that
    NumPy arrays need, and these are replaced by a class that only stores its arguments.
    """
    try:
        batch = _Unpickler(io.BytesIO(data), encoding="bytes").load()
        y = np.array(batch[labels.encode()], dtype=np.uint8)
        _, shape, kind, by_columns, content = batch[b"data"].state
        x = np.frombuffer(content, dtype=np.uint8).reshape(shape)
        if kind.arguments[0] != b"u1" or by_columns or x.ndim != 2 or y.shape != x.shape[:1]:
            raise ValueError("it should hold rows of bytes and a label for each row")
    except Exception as problem:  # a malformed pickle may raise anything
        raise DataError(
            f"{name} is not a pickled batch of CIFAR ({type(problem).__name__}: {problem}); "
            "replace it by the original file"
        ) from problem
    return x, y


class _Stored:
    """Replacement for NumPy's array and dtype that only stores its arguments."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type:
        if f"{module}.{name}" not in ALLOWED:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is not allowed")
        return _Stored


def untarred(files: Mapping[str, bytes], report: Report) -> dict[str, bytes]:
    """Read all files of a published archive, by name, without unpacking it to disk."""
    ((name, content),) = files.items()
    report(f"converting {name}")
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        members = ((PurePath(each.name).name, tar.extractfile(each)) for each in tar)
        return {name: file.read() for name, file in members if file}


def decoder() -> ModuleType:
    """Import Pillow's image module; call this before long work that needs a decoder."""
    try:
        from PIL import Image
    except ImportError as problem:
        raise DataError(
            "PNG and JPEG files are decoded by Pillow, which is not installed: "
            "run pip install pillow, or name a folder with a converted file (.safetensors)"
        ) from problem
    return Image


def decode(data: bytes, name: str, height: int, width: int) -> NDArray[np.uint8]:
    """Decode a PNG or JPEG file to pixels `[3, height, width]`; grey becomes three channels."""
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


def decode_all(
    parts: Sequence[Sequence[str]],
    read: Callable[[str], bytes],
    image: tuple[int, int, int],
    name: str,
    where: Path | str,
    report: Report,
) -> list[NDArray[np.uint8]]:
    """Decode the pictures of a training and a test set, given by name, into arrays `[N, 3, H, W]`.

    `name` is that of the data set, and `where` the folder or archive, for messages.
    """
    decoder()
    total = sum(map(len, parts))
    report(f"decoding {total:,} pictures of {name} in {where}")
    arrays = [np.empty((len(part), *image), dtype=np.uint8) for part in parts]
    pairs = (pair for both in zip(parts, arrays, strict=True) for pair in zip(*both, strict=True))
    for done, (picture, pixels) in enumerate(pairs, start=1):
        pixels[:] = decode(read(picture), f"{where}/{picture}", *image[1:])
        if done % PROGRESS == 0:
            report(f"decoding {name}: {done:,} of {total:,} pictures")
    return arrays
