"""The cache: files that were fetched once, so that they are not fetched again."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

__all__ = ["keep"]


def keep(path: Path, data: bytes) -> None:
    """Write a file so that nobody ever sees half of it, under its name or after a crash.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     keep(Path(folder) / "mnist" / "labels", b"0123")
    ...     (Path(folder) / "mnist" / "labels").read_bytes()
    b'0123'
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own, so that two processes that fetch at once do not write into one file.
    part = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
