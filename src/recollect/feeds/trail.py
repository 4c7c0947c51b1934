"""Recognise a file that was read before, from checksums of a few of its bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from struct import pack
from typing import Any, BinaryIO, final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from recollect.feeds.cells import as_text

BLOCK, ROWS = 4096, 64  # in bytes, and in rows of a table


@final
class Trail:
    """A position in a file: a byte offset, a line number, and checksums of the bytes before it.

    `head` is the CRC-32 of the first block of the file, and `tail` that of the block before the one
    of the position, and of the latter up to the position. Both depend only on these bytes, not on
    where reading started. They are the same after the file has grown, and differ if another file
    has its name or if lines before the position were inserted or removed. At most three blocks are
    read to compare them, whatever the size of the file.

    A position that an earlier version saved has no checksums, and neither has a pipe.

    >>> trail = Trail(0, 0)
    >>> trail.known = True
    >>> trail.advance(b"1.5,walk\\n")
    >>> trail.position
    (9, 1, 1458780780, 1458780780)
    """

    def __init__(self, offset: int, number: int, checks: Sequence[int] = ()) -> None:
        self.offset, self.number = offset, number
        self.known = False  # whether the checksums are those of the bytes before the offset
        self._saved = tuple(checks)
        self._head = self._tail = self._block = 0

    @property
    def position(self) -> tuple[int, ...]:
        """The position as plain data; without checksums if they are not known."""
        if self.known:
            return self.offset, self.number, self._head, self._tail
        return self.offset, self.number

    def restart(self) -> None:
        """Go to the start of a new file."""
        self.offset = self.number = self._head = self._tail = self._block = 0

    def advance(self, line: bytes) -> None:
        """Go to the end of the next line."""
        start, self.offset, self.number = self.offset, self.offset + len(line), self.number + 1
        if not self.known:
            return
        if start < BLOCK:
            self._head = crc32(line[: BLOCK - start], self._head)
        left = BLOCK - start % BLOCK
        while len(line) >= left:  # the line ends this block
            self._tail, self._block = crc32(line[:left], self._block), 0
            line, left = line[left:], BLOCK
        self._tail, self._block = crc32(line, self._tail), crc32(line, self._block)

    def compare(self, file: BinaryIO) -> bool:
        """Compute the checksums of a file, and return whether they are those that were saved."""
        whole = self.offset - self.offset % BLOCK  # where the block of the position starts
        self._head = crc32(_read(file, 0, min(self.offset, BLOCK)))
        self._block = crc32(_read(file, whole, self.offset))
        self._tail = crc32(_read(file, max(whole - BLOCK, 0), self.offset))
        self.known = True
        return self._saved in ((), (self._head, self._tail))


@final
class RowTrail:
    """A position in a table whose bytes may be written anew as it grows, such as a Parquet file.

    `check` is the CRC-32 of the features of the last `ROWS` rows or more before the position. A
    number that is written in another type has the same checksum.

    >>> trail, same = RowTrail(), RowTrail()
    >>> for row in ([1, "red"], [2, None]):
    ...     trail.advance(row)
    >>> for row in ([1.0, "red"], [2.0, float("nan")]):
    ...     same.advance(row)
    >>> trail.check == same.check
    True
    """

    def __init__(self) -> None:
        self.check = self._block = 0
        self._row = 0

    def begin(self, row: int) -> int:
        """Return the row from which to `advance`, so that `check` is right from `row` on."""
        self._row = max(row // ROWS - 1, 0) * ROWS
        return self._row

    def advance(self, values: Sequence[Any] | NDArray[np.float64]) -> None:
        """Go past the next row."""
        self._row += 1
        if isinstance(values, np.ndarray):
            row = values.tobytes()
        else:
            row = b"".join(_plain(value) for value in values)
        self.check, self._block = crc32(row, self.check), crc32(row, self._block)
        if self._row % ROWS == 0:
            self.check, self._block = self._block, 0


def _plain(value: Any) -> bytes:
    """Convert a cell to bytes: those of a 64-bit number if it is one, or missing."""
    if value is None or isinstance(value, bool | int | float | Decimal):
        return pack("=d", math.nan if value is None else float(value))
    return as_text(value).encode("utf-8", "backslashreplace")


def _read(file: BinaryIO, start: int, end: int) -> bytes:
    file.seek(start)
    found = b""
    while len(found) < end - start and (more := file.read(end - start - len(found))):
        found += more
    return found
