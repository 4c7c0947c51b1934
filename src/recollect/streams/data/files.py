"""The files of a data set, and how to tell that one is whole and is the right one."""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "Collection",
    "File",
    "Finding",
    "Report",
    "discard",
    "fault",
    "fault_at",
    "find_in",
    "is_file",
    "read",
    "unpack",
]

Report = Callable[[str], None]


@dataclass(frozen=True)
class File:
    """A file that a data set needs, with the checksum that says it is the right one."""

    name: str
    size: int
    md5: str
    other_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Collection:
    """The files of a data set and where they are found.

    `subfolders` are where people keep the files inside a folder of data, `mirrors` are addresses
    that serve each file as NAME.gz, and `npm_package` holds them, unpacked, in its `npm_folder`.
    """

    name: str
    files: tuple[File, ...]
    subfolders: tuple[str, ...] = ("",)
    mirrors: tuple[str, ...] = ()
    npm_package: str | None = None
    npm_folder: str = ""


@dataclass(frozen=True)
class Finding:
    """Where a data set was found, and what is wrong with it there if anything is."""

    where: str
    problem: str | None = None


def fault(file: File, data: bytes) -> str | None:
    """What is wrong with the bytes of a file, in words; None if they are the right ones.

    >>> file = File("abc", size=3, md5="900150983cd24fb0d6963f7d28e17f72")
    >>> fault(file, b"abc")
    >>> fault(file, b"ab")
    'is truncated: it has 2 bytes and 3 were expected'
    """
    return _wrong_size(file, len(data)) or _wrong_checksum(
        file, hashlib.md5(data, usedforsecurity=False).hexdigest()
    )


def fault_at(file: File, path: Path) -> str | None:
    """What is wrong with a file on disk, as `fault` says it, without holding it in memory."""
    try:
        if wrong := _wrong_size(file, path.stat().st_size):
            return wrong
        with path.open("rb") as stream:
            found = hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False))
    except OSError as problem:
        return f"cannot be read ({problem.strerror or problem})"
    return _wrong_checksum(file, found.hexdigest())


def find_in(folder: Path, file: File, subfolders: tuple[str, ...]) -> Path | None:
    """The path of a file below a folder, plain or gzipped; None if it is not there."""
    for subfolder in subfolders:
        for name in (file.name, *file.other_names):
            for path in (folder / subfolder / name, folder / subfolder / f"{name}.gz"):
                if is_file(path):
                    return path
    return None


def is_file(path: Path) -> bool:
    """Whether there is a file that this user can see; a locked folder has none."""
    try:
        return path.is_file()
    except OSError:
        return False


def read(file: File, path: Path) -> tuple[bytes, str | None]:
    """The unpacked bytes of a file on disk, and what is wrong with them if anything is."""
    try:
        with path.open("rb") as stream:
            # One byte more than expected tells that a file is too long, however long it is.
            data = stream.read() if path.suffix == ".gz" else stream.read(file.size + 1)
    except OSError as problem:
        return b"", f"cannot be read ({problem.strerror or problem})"
    return unpack(file, data) if path.suffix == ".gz" else (data, fault(file, data))


def unpack(file: File, packed: bytes) -> tuple[bytes, str | None]:
    """The bytes of a file from its gzipped form, and what is wrong with them if anything is."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as stream:
            data = stream.read(file.size + 1)
    except (EOFError, OSError, zlib.error) as problem:
        return b"", f"cannot be unpacked ({problem})"
    return data, fault(file, data)


def discard(path: Path, wrong: object, remedy: str, report: Report) -> None:
    """Remove a damaged file from the cache; a cache that cannot be written is no error."""
    report(f"{path} {wrong}; it is removed, to be {remedy} again")
    try:
        path.unlink(missing_ok=True)
    except OSError as problem:
        report(f"{path} could not be removed ({problem.strerror or problem})")


def _wrong_size(file: File, size: int) -> str | None:
    if size < file.size:
        return f"is truncated: it has {size} bytes and {file.size} were expected"
    if size > file.size:
        return f"is another file: it has more than the expected {file.size} bytes"
    return None


def _wrong_checksum(file: File, found: str) -> str | None:
    if found == file.md5:
        return None
    return (
        "is corrupt or belongs to another data set: "
        f"its MD5 checksum is {found} and {file.md5} was expected"
    )
