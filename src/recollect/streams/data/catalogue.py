"""Catalogue of data sets; to add one, add a file here and an entry in `CATALOGUE`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock

from recollect.errors import unknown_name
from recollect.streams.data import digits, mnist
from recollect.streams.data.cifar10 import CIFAR10
from recollect.streams.data.cifar100 import CIFAR100
from recollect.streams.data.conversions import Conversion, locate, obtain
from recollect.streams.data.dataset import Dataset
from recollect.streams.data.files import Collection, Finding, Report, named_folder
from recollect.streams.data.sources import survey
from recollect.streams.data.tiny_imagenet import TINY_IMAGENET


@dataclass(frozen=True)
class Entry:
    """Description of a data set, and the functions that load and locate it."""

    name: str
    classes: int
    image: tuple[int, ...]  # height and width, after the channels if it has several
    train: int
    test: int
    load: Callable[[Path | None, Report], Dataset]
    look: Callable[[Path | None], Finding]

    @property
    def size(self) -> int:
        """Number of bytes of the images, about the size on disk and in memory."""
        return (self.train + self.test) * math.prod(self.image)


def _converted(known: Conversion) -> Entry:
    return Entry(
        known.name, known.classes, known.image, known.train, known.test,
        partial(obtain, known), partial(locate, known),
    )  # fmt: skip


def _four_files(name: str, files: Callable[[], Collection]) -> Entry:
    return Entry(
        name, 10, (28, 28), 60_000, 10_000,
        lambda folder, report: mnist.read(files(), folder, report),
        lambda folder: survey(files(), folder),
    )  # fmt: skip


CATALOGUE = {
    each.name: each
    for each in (
        Entry("digits", 10, (8, 8), digits.TRAIN, digits.TEST, digits.load, digits.look),
        _four_files("mnist", lambda: mnist.MNIST),
        _four_files("fashion-mnist", lambda: mnist.FASHION_MNIST),
        _converted(CIFAR10),
        _converted(CIFAR100),
        _converted(TINY_IMAGENET),
    )
}

_loaded: dict[tuple[str, Path | None], Dataset] = {}
_lock = Lock()


def load(name: str, folder: Path | str | None = None, report: Report | None = None) -> Dataset:
    """Load a data set, and download it first if necessary.

    Files are searched for in `folder` (default: RECOLLECT_DATA), in the cache, and then on the
    network unless RECOLLECT_OFFLINE=1; their checksums are verified. `report` is called with a
    message for each download. Later calls in a process return the same object.

    >>> data = load("digits")
    >>> data.train_x.shape, data.test_x.shape, data.classes
    (torch.Size([1438, 8, 8]), torch.Size([359, 8, 8]), 10)
    >>> load("digits") is data
    True
    """
    known = entry(name)
    where = named_folder(folder)
    with _lock:
        if (name, where) not in _loaded:
            _loaded[name, where] = known.load(where, report or (lambda message: None))
        return _loaded[name, where]


def look(name: str, folder: Path | str | None = None) -> Finding:
    """Return where a data set is and whether it is valid, without changing anything."""
    return entry(name).look(named_folder(folder))


def entry(name: str) -> Entry:
    """Return the catalogue entry of a data set."""
    if name not in CATALOGUE:
        raise unknown_name("data set", name, CATALOGUE)
    return CATALOGUE[name]
