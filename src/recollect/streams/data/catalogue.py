"""The data sets that recollect knows; a new one is a file of its own and a line in `CATALOGUE`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from recollect.errors import unknown_name
from recollect.streams.data import cifar10, digits, mnist, tiny_imagenet
from recollect.streams.data.converted import Form
from recollect.streams.data.dataset import Dataset
from recollect.streams.data.files import Finding, Report
from recollect.streams.data.places import named_folder

__all__ = ["CATALOGUE", "Entry", "entry", "load", "look"]


@dataclass(frozen=True)
class Entry:
    """What is known of a data set before it is loaded, and how to load it."""

    name: str
    classes: int
    image: tuple[int, ...]  # height and width, after the channels if it has several
    train: int
    test: int
    load: Callable[[Path | None, Report], Dataset]
    look: Callable[[Path | None], Finding]

    @property
    def size(self) -> int:
        """How many bytes its images have, which is about what it takes on disk and in memory."""
        return (self.train + self.test) * math.prod(self.image)


def _converted(
    form: Form,
    load: Callable[[Path | None, Report], Dataset],
    look: Callable[[Path | None], Finding],
) -> Entry:
    return Entry(form.name, form.classes, form.image, form.train, form.test, load, look)


CATALOGUE = {
    each.name: each
    for each in (
        Entry("digits", 10, (8, 8), digits.TRAIN, digits.TEST, digits.load, digits.look),
        Entry("mnist", 10, (28, 28), 60_000, 10_000, mnist.load, mnist.look),
        _converted(cifar10.CIFAR10.form, cifar10.load, cifar10.look),
        _converted(tiny_imagenet.TINY_IMAGENET.form, tiny_imagenet.load, tiny_imagenet.look),
    )
}

_loaded: dict[tuple[str, Path | None], Dataset] = {}
_lock = Lock()


def load(name: str, folder: Path | str | None = None, report: Report | None = None) -> Dataset:
    """Load a data set, fetching it first if it is not on this machine.

    Files are sought in `folder` (or the folder that RECOLLECT_DATA names), in the cache, and then
    on the network unless RECOLLECT_OFFLINE=1; each is checked by its checksum. `report` is told
    what is being fetched. A process loads a data set once: later calls return the same object.

    >>> data = load("digits")
    >>> data.train_x.shape, data.test_x.shape, data.classes
    (torch.Size([1438, 8, 8]), torch.Size([359, 8, 8]), 10)
    >>> load("digits") is data
    True
    """
    known = entry(name)
    place = named_folder(folder)
    with _lock:
        if (name, place) not in _loaded:
            _loaded[name, place] = known.load(place, report or _silent)
        return _loaded[name, place]


def look(name: str, folder: Path | str | None = None) -> Finding:
    """Say where a data set is and whether it is intact, without fetching or changing anything.

    >>> look("digits").where
    'bundled'
    """
    return entry(name).look(named_folder(folder))


def entry(name: str) -> Entry:
    """The catalogue's entry for a name.

    >>> entry("mnist").train
    60000
    """
    if name not in CATALOGUE:
        raise unknown_name("data set", name, CATALOGUE)
    return CATALOGUE[name]


def _silent(message: str) -> None:
    """A library says nothing unless it is asked to."""
