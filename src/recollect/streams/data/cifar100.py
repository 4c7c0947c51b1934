"""CIFAR-100: 60,000 colour pictures of 32x32 pixels, in a hundred classes (Krizhevsky, 2009).

Classes are numbered in alphabetical order. Within a class, pictures are sorted by the MD5 checksums
of their pixels, so that all sources give the same data set, whatever their order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from recollect.errors import DataError
from recollect.streams.data.conversions import Conversion, Original
from recollect.streams.data.dataset import Dataset
from recollect.streams.data.files import Collection, File, Report
from recollect.streams.data.formats import decode_all, parse_pickled, untarred

IMAGE = (3, 32, 32)
PARTS = ("train", "test")
ROOTS = ("", "cifar100", "cifar-100", "CIFAR-100-dataset")

Part = tuple[NDArray[np.uint8], NDArray[np.uint8]]  # pixels, N x 3,072 of them, and labels [N]

PICKLED = Collection(
    "cifar100",
    (
        File("train", 155_249_918, "16019d7e3df5f24257cddd939b257f8d"),
        File("test", 31_049_707, "f0ef6b0ae62326f3e7ffdfab6717acfc"),
    ),
    ("cifar-100-python", "", "cifar100", "cifar100/cifar-100-python"),
)
ARCHIVE = Collection(
    "cifar100",
    (File("cifar-100-python.tar.gz", 169_001_437, "eb9058c3a382ffc7106e4002c42a8d85"),),
    ("", "cifar100"),
    mirrors=("https://www.cs.toronto.edu/~kriz/",),
    gzipped=False,
)


def _archive(files: Mapping[str, bytes], report: Report) -> Dataset:
    return _pickled(untarred(files, report), report)


def _pickled(files: Mapping[str, bytes], report: Report) -> Dataset:
    return _sorted(*(parse_pickled(files[name], name, "fine_labels") for name in PARTS))


def _find(folder: Path) -> Original | None:
    """Find class folders of PNG files, such as `train/apple/a.png` and `test/apple/b.png`."""
    for root in (folder / each for each in ROOTS):
        # Many data sets have folders train and test; few have this class.
        if all((root / part / "aquarium_fish").is_dir() for part in PARTS):
            return Original(root, partial(_pictures, root), partial(_read, root))
    return None


def _read(root: Path, report: Report) -> Dataset:
    """Decode all pictures in the folders."""
    found = _pictures(root)
    names = [[name for _, name in part] for part in found]
    read = lambda name: (root / name).read_bytes()  # noqa: E731
    arrays = decode_all(names, read, IMAGE, "cifar100", root, report)
    labels = [np.array([label for label, _ in part], dtype=np.uint8) for part in found]
    return _sorted(*zip(arrays, labels, strict=True))


def _pictures(root: Path) -> list[list[tuple[int, str]]]:
    """List the labels and names of training and test pictures, and check the number per class."""
    parts = []
    for part, size in zip(PARTS, (CIFAR100.train, CIFAR100.test), strict=True):
        folder, expected = root / part, size // CIFAR100.classes
        classes = sorted(each for each in folder.iterdir() if each.is_dir() and each.name[0] != ".")
        if len(classes) != CIFAR100.classes:
            raise DataError(
                f"{folder} has {len(classes)} folders and {CIFAR100.classes} were expected, one "
                "for each class; complete them, or name another folder"
            )
        found = []
        for label, each in enumerate(classes):
            files = [path for path in each.iterdir() if path.suffix.lower() == ".png"]
            if len(files) != expected:
                raise DataError(
                    f"{each} has {len(files)} PNG files and {expected} were expected; complete "
                    "them, or name another folder"
                )
            found += [(label, path.relative_to(root).as_posix()) for path in files]
        parts.append(found)
    return parts


def _sorted(*parts: Part) -> Dataset:
    """Build the data set from a training and a test part, in the canonical order."""
    tensors = []
    for x, y in parts:
        sums = [hashlib.md5(row.tobytes(), usedforsecurity=False).digest() for row in x]
        order = sorted(range(len(y)), key=lambda i: (y[i], sums[i]))
        tensors += [torch.from_numpy(x[order].reshape(-1, *IMAGE)), torch.from_numpy(y[order])]
    train_x, train_y, test_x, test_y = tensors
    return Dataset("cifar100", 100, train_x, train_y.long(), test_x, test_y.long())


CIFAR100 = Conversion(
    "cifar100",
    classes=100,
    image=IMAGE,
    train=50_000,
    test=10_000,
    md5={
        "train_x": "3c2055c3f657a2273c3986901941d85e",
        "train_y": "a04dc7a2ff1b1cbbf659487c48167031",
        "test_x": "ef6618e6039c5c72736b2dc8d39f9589",
        "test_y": "4fd50bf3efa76ef04a9282fc5df67e61",
    },
    layouts={PICKLED: _pickled, ARCHIVE: _archive},
    find=_find,
    wanted="cifar-100-python, cifar-100-python.tar.gz, cifar100.safetensors, or the folders train "
    "and test with a folder of PNG files for each class",
)
