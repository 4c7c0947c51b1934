"""The cache: files that were fetched once, so that they are not fetched again."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["keep", "replacing"]


def keep(path: Path, data: bytes) -> None:
    """Write a file so that nobody ever sees half of it, under its name or after a crash.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     keep(Path(folder) / "mnist" / "labels", b"0123")
    ...     (Path(folder) / "mnist" / "labels").read_bytes()
    b'0123'
    """
    with replacing(path) as part:
        part.write_bytes(data)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to: what stands there at the end gets the name `path`, and an error none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own, so that two processes that fetch at once do not write into one file.
    part = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        yield part
        with part.open("rb+") as stream:
            os.fsync(stream.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
