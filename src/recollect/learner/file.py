"""Read and write the file of a learner; `recollect.files` packs its contents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recollect.errors import DataError
from recollect.files import write_bytes

__all__ = ["naming", "read", "write"]


def write(path: Path, data: bytes) -> None:
    """Write a file atomically; it is on the disk when this returns."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise DataError(f"{path} cannot be written: it is a device or a pipe, and no file")
        write_bytes(path, data)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}") from None


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Begin the message of a `DataError` with the path of the file, unless it names it already."""
    try:
        yield
    except DataError as error:
        message = str(error)
        raise DataError(message if str(path) in message else f"{path}: {message}") from None


def read(path: Path) -> bytes:
    """The contents of a file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
