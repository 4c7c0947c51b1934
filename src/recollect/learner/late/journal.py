"""An append-only journal in a folder: files of records with a length and a checksum each."""

from __future__ import annotations

import logging
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, final

from torch import Tensor

from recollect.errors import DataError, InputError
from recollect.files import pack, replacing, unpack, write_bytes

SUFFIX = ".journal"
HEAD = 8  # bytes before a record: its length and its CRC-32

_log = logging.getLogger("recollect.learner")


class Record(NamedTuple):
    """Plain data and tensors, and the byte offset of their end in the file."""

    facts: dict[str, Any]
    tensors: dict[str, Tensor]
    end: int


@final
class Segment:
    """One file of a journal; its first record is the state before the others."""

    def __init__(self, path: Path) -> None:
        self.path, self.number = path, int(path.name.removesuffix(SUFFIX))

    def records(self, *, last: bool) -> Iterator[Record]:
        """Yield the records; an incomplete one is ignored at the end of the `last` segment."""
        try:
            with self.path.open("rb") as file:
                size, start = self.path.stat().st_size, 0
                while (found := _read(file.read(HEAD), file.read)) is not None:
                    start += HEAD + found[0]
                    facts, tensors = unpack(found[1])
                    yield Record(facts, tensors, start)
        except OSError as error:
            raise DataError(f"cannot read {self.path}: {error.strerror or error}") from None
        if start < size and not last:
            raise DataError(
                f"{self.path} is damaged at byte {start}: restore it from a backup; without one, "
                f"the labels after that byte cannot be learned"
            )

    def start(self) -> Record:
        """Return the first record, which is a state."""
        for record in self.records(last=True):
            return record
        raise DataError(
            f"{self.path} is damaged: its first record is incomplete; restore it from a backup"
        )


def segments_in(folder: Path) -> list[Segment]:
    """Return the files of the journal in a folder, in order."""
    found = (path for path in folder.glob(f"*{SUFFIX}") if path.name[: -len(SUFFIX)].isdigit())
    return sorted((Segment(path) for path in found), key=lambda segment: segment.number)


@final
class Journal:
    """Append records to the last segment of a folder, which only this process may do.

    `began` is the size of the first record in bytes, and `size` that of the file.
    """

    def __init__(self, segment: Segment, began: int, size: int) -> None:
        self.segment, self.folder = segment, segment.path.parent
        self.began, self.size = began, size
        self._pid, self._file = os.getpid(), -1
        self._file = os.open(segment.path, os.O_WRONLY | os.O_APPEND)

    @classmethod
    def begun(
        cls, folder: Path, facts: Mapping[str, Any], tensors: Mapping[str, Tensor]
    ) -> Journal:
        """Create a segment that begins with this state; it is on disk when this returns."""
        each = segments_in(folder)
        path = folder / f"{each[-1].number + 1 if each else 1:08d}{SUFFIX}"
        data = _framed(pack(facts, tensors))
        try:
            write_bytes(path, data)
            return cls(Segment(path), len(data), len(data))
        except OSError as error:
            raise _not_written(path, error) from None

    @classmethod
    def continued(cls, segment: Segment, began: int, end: int) -> Journal:
        """Open the last segment to append after `end`, the end of its last complete record."""
        torn = segment.path.stat().st_size - end
        if torn:
            _log.warning(
                "%s: removed an incomplete record of %d bytes at the end", segment.path, torn
            )
            os.truncate(segment.path, end)
        return cls(segment, began, end)

    def append(self, facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Append a record, which survives a crash of the process, and after `sync` of the machine.

        If writing fails, the file is unchanged.
        """
        if os.getpid() != self._pid:
            raise InputError(
                f"{self.folder} belongs to the process that this one was forked from: use the "
                f"learner there"
            )
        data = _framed(pack(facts, tensors))
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except BaseException as error:
            os.ftruncate(self._file, self.size)
            if isinstance(error, OSError):
                raise _not_written(self.segment.path, error) from None
            raise
        self.size += len(data)

    def sync(self) -> None:
        """Sync all records to disk."""
        try:
            os.fsync(self._file)
        except OSError as error:
            raise _not_written(self.segment.path, error) from None

    def close(self) -> None:
        """Sync all records to disk and close the file."""
        if self._file >= 0:
            file, self._file = self._file, -1
            with suppress(OSError):
                os.fsync(file)
            os.close(file)

    def __del__(self) -> None:
        self.close()


def rewrite(segment: Segment, change: Callable[[Record], Record | None], *, last: bool) -> None:
    """Replace a file by one with changed records; those for which `change` gives None go."""
    changed = (change(record) for record in segment.records(last=last))
    with replacing(segment.path) as part, part.open("wb") as file:
        for record in changed:
            if record is not None:
                file.write(_framed(pack(record.facts, record.tensors)))


def _framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "little") + zlib.crc32(data).to_bytes(4, "little") + data


def _read(head: bytes, read: Callable[[int], bytes]) -> tuple[int, bytes] | None:
    """Read the length and the bytes of the record with this header; None if it is incomplete."""
    size = int.from_bytes(head[:4], "little")
    if len(head) < HEAD or not size:
        return None
    data = read(size)
    whole = len(data) == size and zlib.crc32(data) == int.from_bytes(head[4:], "little")
    return (size, data) if whole else None


def _not_written(path: Path, error: OSError) -> DataError:
    return DataError(f"cannot write {path}: {error.strerror or error}")
