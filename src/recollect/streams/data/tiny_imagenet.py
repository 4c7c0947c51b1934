"""Tiny ImageNet: 110,000 colour pictures of 64x64 pixels, in 200 classes of ImageNet.

The labels of its test set were never published, so its validation set is used as the test set, as
is common.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from recollect.errors import DataError
from recollect.streams.data.conversions import Conversion, Original
from recollect.streams.data.dataset import Dataset
from recollect.streams.data.files import Collection, File, Report, is_file
from recollect.streams.data.formats import decode_all

# MD5 checksum of the sorted class names, each followed by a newline.
CLASSES_MD5 = "1225154e6f7e3c0f9ce4ceb4303eade1"
# Mean of each channel of the training set. Decoders differ only by rounding.
MEAN, TOLERANCE = (0.4802, 0.4481, 0.3975), 0.002
RESTORE = "restore the original files, or name another folder"

ROOTS = ("tiny-imagenet-200", "", "tiny-imagenet", "tiny-imagenet/tiny-imagenet-200")
LEARNED = re.compile(r"train/(\w+)/(?:images/)?[^/.]+\.jpe?g", re.IGNORECASE)
TESTED = re.compile(r"val/(?:(\w+)/)?(?:images/)?([^/.]+\.jpe?g)", re.IGNORECASE)


class Tree(NamedTuple):
    """Files in a folder or an archive; names have slashes, as in `val/images/a.JPEG`."""

    where: Path | str
    names: Sequence[str]
    read: Callable[[str], bytes]


class Picture(NamedTuple):
    """Picture file with its label and the number in its name (val_7.JPEG has 7)."""

    label: int
    number: int
    name: str


def _find(folder: Path) -> Original | None:
    for root in (folder / each for each in ROOTS):
        if is_file(root / "wnids.txt") and (root / "train").is_dir():
            tree = _below(root)
            return Original(root, partial(_pictures, tree), partial(_read, tree))
    return None


def _below(root: Path) -> Tree:
    names: list[str] = []
    for part in ("train", "val"):
        for folder, _, files in os.walk(root / part):
            prefix = Path(folder).relative_to(root).as_posix()
            names.extend(f"{prefix}/{name}" for name in files)
    return Tree(root, names, lambda name: (root / name).read_bytes())


def _archive(files: Mapping[str, bytes], report: Report) -> Dataset:
    """Read the published archive, without unpacking it to disk."""
    ((file, content),) = files.items()
    top = "tiny-imagenet-200/"
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = [name.removeprefix(top) for name in archive.namelist()]
        return _read(Tree(file, names, lambda name: archive.read(top + name)), report)


def _read(tree: Tree, report: Report) -> Dataset:
    """Decode all pictures of a tree, and check that they are those of the data set."""
    known, parts = TINY_IMAGENET, _pictures(tree)
    names = [[picture.name for picture in part] for part in parts]
    read = partial(_content, tree)
    arrays = decode_all(names, read, known.image, known.name, tree.where, report)
    _check_mean(tree, arrays[0])
    x, test_x = (torch.from_numpy(array) for array in arrays)
    y, test_y = (torch.tensor([picture.label for picture in part]) for part in parts)
    return Dataset(known.name, known.classes, x, y, test_x, test_y)


def _pictures(tree: Tree) -> tuple[list[Picture], list[Picture]]:
    """List the training pictures, by class and number, and the test pictures, by number."""
    known = TINY_IMAGENET
    labels = {wnid: label for label, wnid in enumerate(_classes(tree))}
    annotated = _annotated(tree)
    learned, tested = [], []
    for name in tree.names:
        if (found := LEARNED.fullmatch(name)) and found[1] in labels:
            learned.append(Picture(labels[found[1]], _number(name), name))
        elif found := TESTED.fullmatch(name):
            wnid = found[1] if found[1] in labels else annotated.get(found[2])
            if wnid not in labels:
                raise DataError(
                    f"{tree.where}/{name} has no known class: neither its folder nor "
                    f"val/val_annotations.txt gives it one of the {known.classes}; {RESTORE}"
                )
            tested.append(Picture(labels[wnid], _number(name), name))
    for part, pictures, total in (("train", learned, known.train), ("val", tested, known.test)):
        counts = Counter(picture.label for picture in pictures)
        for wnid, label in labels.items():
            if counts[label] != total // known.classes:
                raise DataError(
                    f"{tree.where}/{part} has {counts[label]} pictures of the class {wnid} and "
                    f"{total // known.classes} were expected; {RESTORE}"
                )
    return sorted(learned), sorted(tested, key=lambda picture: picture.number)


def _number(name: str) -> int:
    found = re.search(r"(\d+)\.\w+$", name)
    return int(found[1]) if found else -1


def _classes(tree: Tree) -> list[str]:
    """Return the sorted class names; the index of a name is its label."""
    wnids = sorted(_content(tree, "wnids.txt").decode("ascii", "replace").split())
    content = "".join(f"{wnid}\n" for wnid in wnids).encode()
    if hashlib.md5(content, usedforsecurity=False).hexdigest() != CLASSES_MD5:
        raise DataError(
            f"{tree.where}/wnids.txt, with {len(wnids)} names, does not name the "
            f"{TINY_IMAGENET.classes} classes of tiny-imagenet; "
            "restore the original file, or name another folder"
        )
    return wnids


def _annotated(tree: Tree) -> dict[str, str]:
    """Read the class of each validation picture from val_annotations.txt."""
    if "val/val_annotations.txt" not in tree.names:
        return {}
    lines = _content(tree, "val/val_annotations.txt").decode("ascii", "replace").splitlines()
    rows = (line.split() for line in lines)
    return {row[0]: row[1] for row in rows if len(row) >= 2}


def _content(tree: Tree, name: str) -> bytes:
    try:
        return tree.read(name)
    except (KeyError, OSError) as problem:
        raise DataError(
            f"{tree.where}/{name} is missing or cannot be read ({problem}); {RESTORE}"
        ) from problem


def _check_mean(tree: Tree, x: NDArray[np.uint8]) -> None:
    sums = x.reshape(*x.shape[:2], -1).sum(-1, dtype=np.uint32)  # [N, 3]
    mean = sums.mean(0) / (255 * x[0, 0].size)
    if np.abs(mean - MEAN).max() > TOLERANCE:
        raise DataError(
            f"the pictures in {tree.where} are not those of tiny-imagenet: the mean of their "
            f"channels is {mean.round(4).tolist()} and {list(MEAN)} was expected; {RESTORE}"
        )


ARCHIVE = Collection(
    "tiny-imagenet",
    (File("tiny-imagenet-200.zip", 248_100_043, "90528d7ca1a48142e341f4ef8d21d0de"),),
    ("", "tiny-imagenet"),
    mirrors=("https://cs231n.stanford.edu/",),
    gzipped=False,
    pictures=True,
)
TINY_IMAGENET = Conversion(
    "tiny-imagenet",
    classes=200,
    image=(3, 64, 64),
    train=100_000,
    test=10_000,
    md5={
        "train_y": "47e9a53346abc5e1d89e2595b15aa84d",
        "test_y": "c70079186ea2f6fe439609db95ef1b7b",
    },
    layouts={ARCHIVE: _archive},
    find=_find,
    wanted="tiny-imagenet-200 (with wnids.txt, train and val), tiny-imagenet-200.zip "
    "or tiny-imagenet.safetensors",
)
