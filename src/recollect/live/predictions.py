"""Predictions as JSON lines, in a file that can be continued exactly."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, final

from recollect.errors import DataError

__all__ = ["Predictions"]


@final
class Predictions:
    """Writes one line for every example to a file, an open binary stream, or nowhere (None).

    A file that is continued is truncated to the length that it had when the state was saved: what
    was written after that is written again. `lengths` has the length of every file so far.
    """

    def __init__(
        self, output: Path | BinaryIO | None, lengths: Mapping[str, int] | None = None
    ) -> None:
        self.lengths = dict(lengths or {})
        self._path = output if isinstance(output, Path) else None
        self._file = None if isinstance(output, Path) else output
        if self._path is not None:
            self._file = _opened(self._path, self.lengths.get(str(self._path), 0))

    def write(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Write lines, so that whoever reads along sees them."""
        if self._file is not None:
            text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
            # What cannot be encoded becomes the escape that JSON has for it.
            self._file.write(text.encode("utf-8", "backslashreplace"))
            self._file.flush()

    def sync(self) -> None:
        """Have all lines on the disk, and note how many bytes they are."""
        if self._file is not None and self._path is not None:
            os.fsync(self._file.fileno())
            self.lengths[str(self._path)] = self._file.tell()

    def close(self) -> None:
        """Close the file; a stream that was given stays open."""
        if self._file is not None and self._path is not None:
            self._file.close()


def _opened(path: Path, length: int) -> BinaryIO:
    try:
        file = path.open("r+b" if length else "wb")
    except OSError as error:
        raise DataError(
            f"cannot continue the predictions in {path}: {error.strerror or error}; fresh=True "
            f"starts over"
        ) from None
    if file.seek(0, os.SEEK_END) < length:
        file.close()
        raise DataError(
            f"{path} is shorter than what was written to it: fresh=True starts over, and another "
            f"file for predictions begins with the next example"
        )
    file.truncate(length)
    file.seek(length)
    return file
