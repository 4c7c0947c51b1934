"""Data sets that are slow to read as they are published: they are converted once, into one file.

The converted file is a safetensors file with four tensors, quick to load.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from recollect.errors import DataError
from recollect.files import replacing
from recollect.streams.data.dataset import Dataset
from recollect.streams.data.downloads import SourceError, remote
from recollect.streams.data.files import Collection, Finding, Report, cache_folder, discard, is_file
from recollect.streams.data.formats import decoder
from recollect.streams.data.sources import check_exists, find, on_disk, problem, survey, unavailable

__all__ = ["Conversion", "Original", "Unfit", "locate", "obtain", "read", "write"]

# What makes a data set of the bytes of its files, by their names.
Parse = Callable[[Mapping[str, bytes], Report], Dataset]


class Original(NamedTuple):
    """A data set as it was published, found in a folder: a quick check, and the slow reading.

    `fault` says what is wrong, if anything is; `read` raises DataError with the same words.
    """

    path: Path
    fault: Callable[[], str | None]
    read: Callable[[Report], Dataset]


@dataclass(frozen=True)
class Conversion:
    """A data set that is slow to read as it is published, and is converted once into one file.

    `md5` has the checksums of the tensors whose content is the same on every machine; the others
    are checked by the checksums that the file itself carries. `layouts` are the forms in which the
    data set is published, in the order in which they are sought; `find` looks in a folder for one
    that is not a collection of files, and `wanted` tells a person what to put into a folder.
    """

    name: str
    classes: int  # at most 256: a label is a byte
    image: tuple[int, int, int]
    train: int
    test: int
    md5: Mapping[str, str] = field(default_factory=dict)
    layouts: Mapping[Collection, Parse] = field(default_factory=dict)
    find: Callable[[Path], Original | None] = lambda folder: None
    wanted: str = ""

    @property
    def file(self) -> str:
        """The name of the converted file."""
        return f"{self.name}.safetensors"

    @property
    def cached(self) -> Path:
        """Where the converted file is in the cache."""
        return cache_folder() / self.file

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The tensors of the file and their shapes; all are uint8."""
        return {
            "train_x": (self.train, *self.image),
            "train_y": (self.train,),
            "test_x": (self.test, *self.image),
            "test_y": (self.test,),
        }


class Unfit(Exception):  # noqa: N818 - what is wrong with a file, in words that follow its name
    """Why a converted file, or what should become one, is not what it should be."""


def obtain(known: Conversion, folder: Path | None, report: Report) -> Dataset:
    """Load a data set from its converted file, which is made first if it is not there yet.

    The order is: the converted file in the folder that the user named, the one in the cache, the
    original files in that folder, the mirrors, and npm. What was read from original files is
    stored in the cache. Damaged files in the user's folder are an error; a damaged file in the
    cache is made again.
    """
    where, path = _converted(known, folder)
    if path is not None:
        try:
            return read(known, path)
        except Unfit as wrong:
            if where == "folder":
                raise DataError(problem(where, path, wrong, path.name, known.name)) from wrong
            discard(path, wrong, "made", report)
    reasons = [f"the cache {cache_folder()} lacks {known.file}"]
    if folder is not None:
        if original := _original(known, folder):
            try:
                return _kept(known, original.read(report), report)
            except Unfit as wrong:
                text = problem("folder", original.path, wrong, original.path.name, known.name)
                raise DataError(text) from wrong
        reasons.insert(0, f"the folder {folder} lacks its files")
    for collection, parse in known.layouts.items():
        for source in remote(collection, report):
            if collection.pictures:
                decoder()
            try:
                return _kept(known, parse(dict(source(collection.files)), report), report)
            except (SourceError, Unfit) as reason:
                reasons.append(str(reason))
    raise unavailable(known.name, known.wanted, reasons)


def locate(known: Conversion, folder: Path | None) -> Finding:
    """Where a data set is on this machine, and what is wrong with it; nothing is converted."""
    where, path = _converted(known, folder)
    if path is not None:
        try:
            read(known, path)
        except Unfit as wrong:
            return Finding(where, problem(where, path, wrong, path.name, known.name))
        return Finding(where)
    if folder is not None and (original := _original(known, folder)):
        return Finding("folder, to be converted", original.fault())
    return Finding("not here", f"{known.file} is missing; run recollect data fetch {known.name}")


def read(known: Conversion, path: Path) -> Dataset:
    """Load a converted file and check all of it; its images stay on disk until they are used.

    They are mapped into memory privately: who writes to them changes neither the file nor what
    another process sees.
    """
    try:
        with safe_open(path, framework="pt") as file:
            recorded = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as problem:
        raise Unfit(f"is truncated or is not a safetensors file ({problem})") from problem
    for name, found in _checksums(known, tensors).items():
        expected = known.md5.get(name) or recorded.get(name)
        if expected is None:
            raise Unfit(f"was not written by recollect: it carries no checksum of {name}")
        if found != expected:
            raise Unfit(
                f"is corrupt: the MD5 checksum of {name} is {found} and {expected} was expected"
            )
    labels = {name: tensors[name].long() for name in ("train_y", "test_y")}
    try:
        return Dataset(known.name, known.classes, **tensors | labels)
    except DataError as problem:
        raise Unfit(f"is not a file of {known.name}: {problem}") from problem


def write(known: Conversion, data: Dataset, path: Path) -> None:
    """Check a data set, and only then write its converted file, whole or not at all."""
    tensors: dict[str, Tensor] = {
        name: getattr(data, name).to(torch.uint8).contiguous() for name in known.shapes
    }
    found = _checksums(known, tensors)
    for name, expected in known.md5.items():
        if found[name] != expected:
            raise Unfit(
                f"holds another data set than {known.name}: the MD5 checksum of {name} is "
                f"{found[name]} and {expected} was expected"
            )
    with replacing(path) as part:
        # A file that safetensors makes is closed to other users, who may share this cache.
        part.touch()
        mode = part.stat().st_mode
        save_file(tensors, part, metadata=found)
        part.chmod(mode)


def _checksums(known: Conversion, tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """The MD5 checksum of every tensor, once all have the shapes and types that they should."""
    if tensors.keys() != known.shapes.keys():
        raise Unfit(
            f"holds {', '.join(sorted(tensors)) or 'nothing'}: "
            f"{', '.join(sorted(known.shapes))} were expected"
        )
    for name, shape in known.shapes.items():
        tensor = tensors[name]
        if tensor.dtype != torch.uint8 or tuple(tensor.shape) != shape:
            raise Unfit(
                f"has {name} of type {tensor.dtype} and shape {tuple(tensor.shape)}: "
                f"{torch.uint8} and {shape} were expected"
            )
    return {
        name: hashlib.md5(tensor.numpy().data, usedforsecurity=False).hexdigest()
        for name, tensor in tensors.items()
    }


def _converted(known: Conversion, folder: Path | None) -> tuple[str, Path | None]:
    """Where the converted file is, `folder` or `cache`, and its path there."""
    if folder is not None:
        check_exists(folder)
        for path in (folder / known.file, folder / known.name / known.file):
            if is_file(path):
                return "folder", path
    return "cache", known.cached if is_file(known.cached) else None


def _original(known: Conversion, folder: Path) -> Original | None:
    """The first complete layout in a folder, or else the first that has some of its files."""
    if original := known.find(folder):
        return original
    for enough in (all, any):
        for collection, parse in known.layouts.items():
            if enough(find(collection, folder, file) for file in collection.files):
                fault = partial(_fault, collection, folder)
                return Original(folder, fault, partial(_read, collection, parse, folder))
    return None


def _fault(collection: Collection, folder: Path) -> str | None:
    return survey(collection, folder).problem


def _read(collection: Collection, parse: Parse, folder: Path, report: Report) -> Dataset:
    report(f"converting the files of {collection.name} in {folder}")
    try:
        return parse(dict(on_disk(collection, folder, report, collection.files)), report)
    except SourceError as reason:
        raise DataError(f"{reason}; complete its files, or name another folder") from reason


def _kept(known: Conversion, data: Dataset, report: Report) -> Dataset:
    """Store the converted file for the next time; a cache that cannot be written is no error."""
    path = known.cached
    try:
        write(known, data, path)
    except (OSError, SafetensorError) as problem:
        report(f"{path} could not be kept in the cache ({problem})")
    else:
        report(f"{known.name} is kept in {path}")
    return data
