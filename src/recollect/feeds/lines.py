"""Read lines from growing files and from standard input in bounded memory."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, final

from recollect.errors import DataError
from recollect.feeds.record import OTHER_FILE, Malformed
from recollect.feeds.trail import Trail

STDIN = "-"
NEW_FILE = b""  # not a line: the next line is the first one of another file
POLL = 0.1
CHUNK = 1 << 18
PIPE = 1 << 16
LONGEST = 1 << 24

# Compressed files: the end of their names, their first bytes, and how to unpack them.
COMPRESSED = {
    ".gz": (b"\x1f\x8b", "gunzip -c"), ".bz2": (b"BZh91AY", "bunzip2 -c"),
    ".xz": (b"\xfd7zXZ", "xz -dc"), ".zst": (b"\x28\xb5\x2f\xfd", "zstd -dc"),
    ".zip": (b"PK\x03\x04", "unzip -p"),
}  # fmt: skip
# The first bytes of other files that are not UTF-8 text, and what to do with such a file.
OTHER_FILES = {
    b"\xff\xfe": "is UTF-16 text: convert it, as with iconv -f UTF-16 -t UTF-8",
    b"\xfe\xff": "is UTF-16 text: convert it, as with iconv -f UTF-16 -t UTF-8",
    b"PAR1\x15": "is a Parquet file: give kind='parquet'",
}


def compressed(ending: str) -> str:
    """Return what to do with a compressed file, by the end of its name."""
    _, command = COMPRESSED[ending]
    return f"is compressed: unpack it, or pipe the output of {command} to standard input (-)"


@final
@dataclass(frozen=True)
class FileLines:
    """Read the lines of a file, and follow the `followed` file as it grows.

    In a followed file, a line counts only once its end has been written. If the file is truncated
    or replaced by another of the same name, as in log rotation, reading continues with the new
    content, and `say` is called with a message.
    """

    followed: str | None = None
    say: Callable[[str], None] = lambda text: None

    def lines(self, source: str, trail: Trail) -> Iterator[bytes | None]:
        """Yield the lines from a position, with line ends; None while no data arrives.

        The caller moves the `trail` past each line.
        """
        try:
            yield from self._read_once(source, trail)
            while source == self.followed:
                yield NEW_FILE
                yield from self._read_once(source, trail)
        except OSError as error:
            raise DataError(f"cannot read {source}: {error.strerror or error}") from None

    def _read_once(self, source: str, trail: Trail) -> Iterator[bytes | None]:
        with Path(source).open("rb", buffering=0) as file:
            trail.known = file.seekable()
            if trail.offset and trail.known and (why := _seek_error(file, trail)):
                if source != self.followed:
                    raise DataError(f"{source} {why}: {OTHER_FILE}")
                self.say(f"{source} {why}: reading it from its start")
                return
            yield from _split(source, self._chunks(source, file))

    def _chunks(self, source: str, file: BinaryIO) -> Iterator[bytes | None]:
        while True:
            if not file.seekable() and not _ready(file.fileno()):  # a named pipe
                yield None
                continue
            chunk = file.read(CHUNK)
            if chunk:
                yield chunk
            elif source != self.followed:
                return
            elif _was_replaced(source, file):
                while chunk := file.read(CHUNK):  # written before it was replaced
                    yield chunk
                self.say(f"{source} was replaced: reading the new file")
                return
            elif file.seekable() and os.fstat(file.fileno()).st_size < file.tell():
                self.say(f"{source} was truncated: reading it from its start")
                yield NEW_FILE  # discards the unfinished line
                return
            else:
                yield None
                time.sleep(POLL)


@final
@dataclass(frozen=True)
class InputLines:
    """Read the lines of standard input until it ends or `stopping` returns True.

    All input is new, unless it is `replayed`: then it starts from its beginning, and the part that
    was read before is skipped. Data that was read before stopping is still returned.
    """

    replayed: bool = False
    stopping: Callable[[], bool] = lambda: False

    def lines(self, source: str, trail: Trail) -> Iterator[bytes | None]:
        """Yield the lines with their ends; None while no data arrives."""
        yield from _split(
            "standard input", _skip_bytes(trail.offset if self.replayed else 0, self._chunks())
        )

    def _chunks(self) -> Iterator[bytes | None]:
        # Bypasses Python's buffer: select() does not see data that waits there.
        number = sys.stdin.fileno()
        while not self.stopping():
            chunk = os.read(number, PIPE) if _ready(number) else None
            if chunk == b"":
                return
            yield chunk


Lines = FileLines | InputLines


def numbered(
    lines: Lines, source: str, position: Sequence[int]
) -> Iterator[tuple[bytes | None, tuple[int, ...]]]:
    """Yield the lines after a position, each with the position of its end: see `Trail`."""
    offset, number, *checks = position
    trail = Trail(offset, number, checks)
    for raw in lines.lines(source, trail):
        if raw == NEW_FILE:
            trail.restart()
        elif raw is not None:
            if not trail.offset:
                _check_text(source, raw)
            trail.advance(raw)
        yield raw, trail.position


def _check_text(source: str, first: bytes) -> None:
    """Raise `DataError` if the first line shows that the file is not UTF-8 text with lines."""
    known = {start: compressed(ending) for ending, (start, _) in COMPRESSED.items()} | OTHER_FILES
    problem = next((what for start, what in known.items() if first.startswith(start)), None)
    if problem is None and b"\r" in first.rstrip(b"\r\n") and b'"' not in first:
        problem = "has lines that end with \\r only: convert it, as with tr '\\r' '\\n'"
    if problem:
        raise DataError(f"{'standard input' if source == STDIN else source} {problem}")


def decoded_line(raw: bytes) -> str:
    """Decode a line without its end, and without a byte order mark.

    The mark is at the start of a file, or of one that was appended to it.

    >>> decoded_line(b"\\xef\\xbb\\xbfa,b\\r\\n")
    'a,b'
    """
    try:
        return raw.removeprefix(b"\xef\xbb\xbf").decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise Malformed(
            "it is not UTF-8 text: convert the file, as with iconv -f LATIN1 -t UTF-8"
        ) from None


def _split(source: str, chunks: Iterator[bytes | None]) -> Iterator[bytes | None]:
    rest = b""
    for chunk in chunks:
        if chunk is None:
            yield None
            continue
        if chunk == NEW_FILE:
            rest = b""
            continue
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line + b"\n"
        if len(rest) > LONGEST:
            raise DataError(
                f"{source} has a line of more than {LONGEST >> 20} MiB: check that it is text"
            )
    if rest:
        yield rest


def _skip_bytes(offset: int, chunks: Iterator[bytes | None]) -> Iterator[bytes | None]:
    left = offset
    for chunk in chunks:
        if chunk is None or len(chunk) > left:
            yield chunk and chunk[left:]
        left -= min(left, len(chunk or b""))
    if left:
        raise DataError(
            f"standard input ended after {offset - left} bytes, but {offset} were read before: "
            f"leave out replayed=True if the input is new"
        )


def _ready(number: int) -> bool:
    try:  # waits a moment
        return bool(select.select([number], [], [], POLL)[0])
    except OSError:  # some systems cannot wait for every kind of file
        return True


def _was_replaced(source: str, file: BinaryIO) -> bool:
    try:
        return not os.path.samestat(Path(source).stat(), os.fstat(file.fileno()))
    except FileNotFoundError:  # the new file does not exist yet
        return False


def _seek_error(file: BinaryIO, trail: Trail) -> str | None:
    """Seek to a position; return why reading cannot continue there, or None if it can."""
    if os.fstat(file.fileno()).st_size < trail.offset:
        return "is shorter than the part that was read before"
    file.seek(trail.offset - 1)
    last, following = file.read(1), file.read(1)
    # The last line may not have had a line end when it was read.
    if last != b"\n" and following not in (b"", b"\r", b"\n"):
        return (
            "has no line end where reading stopped before, as if its last line was still being "
            "written (follow=True waits for line ends)"
        )
    if not trail.compare(file):
        return "has other lines than those that were read before"
    file.seek(trail.offset)
    trail.number -= last != b"\n"  # the line end that follows is not another line
    return None
