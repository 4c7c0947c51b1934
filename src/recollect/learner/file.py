"""A learner's file on the disk; what is inside is made by `recollect.files`."""

from __future__ import annotations

from pathlib import Path

from recollect.errors import DataError
from recollect.files import write_bytes

__all__ = ["read", "write"]


def write(path: Path, data: bytes) -> None:
    """Put a file in its place, whole or not at all, and on the disk when this returns."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise DataError(f"{path} cannot be written: it is a device or a pipe, and no file")
        write_bytes(path, data)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}") from None


def read(path: Path) -> bytes:
    """What a file holds."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
