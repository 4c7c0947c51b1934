"""Lines of files that may still grow, and of standard input, with bounded memory."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, final

from recollect.errors import DataError
from recollect.feeds.record import OTHER_FILE, Malformed

__all__ = ["ANEW", "POLL", "STDIN", "FileLines", "InputLines", "Lines", "numbered", "text_of"]

STDIN = "-"
ANEW = b""  # is not a line: what follows is another file, from its first byte on
POLL = 0.1
CHUNK = 1 << 18
PIPE = 1 << 16
LONGEST = 1 << 24

# What other files than text begin with, and what to do with them.
OTHER_FILES = {
    b"\x1f\x8b": "it is compressed: unpack it, or give what gunzip -c prints to standard input",
    b"\xff\xfe": "it is UTF-16 text: make UTF-8 of it, as by iconv -f UTF-16 -t UTF-8",
    b"\xfe\xff": "it is UTF-16 text: make UTF-8 of it, as by iconv -f UTF-16 -t UTF-8",
}


@final
@dataclass(frozen=True)
class FileLines:
    """The lines of a file; of the one that is `followed`, also those that are yet to be written.

    While a file is followed, a line without its end is not yet a line. If another file takes its
    name, or if it is truncated, as happens to logs, reading goes on there, after a message to
    `say`.
    """

    followed: str | None = None
    say: Callable[[str], None] = lambda text: None

    def lines(self, source: str, offset: int) -> Iterator[bytes | None]:
        """The lines from a byte on, each with its end; None whenever nothing came for a moment."""
        try:
            yield from self._of_one(source, offset)
            while source == self.followed:
                yield ANEW
                yield from self._of_one(source, 0)
        except OSError as error:
            raise DataError(f"cannot read {source}: {error.strerror or error}") from None

    def _of_one(self, source: str, offset: int) -> Iterator[bytes | None]:
        with Path(source).open("rb", buffering=0) as file:
            if offset and file.seekable() and (why := _misplaced(file, offset)):
                if source != self.followed:
                    raise DataError(f"{source} {why} before: {OTHER_FILE}")
                self.say(f"{source} {why}: reading it from its start")
                return
            yield from _split(source, self._chunks(source, file))

    def _chunks(self, source: str, file: BinaryIO) -> Iterator[bytes | None]:
        while True:
            chunk = file.read(CHUNK)
            if chunk:
                yield chunk
            elif source != self.followed:
                return
            elif _is_other(source, file):
                while chunk := file.read(CHUNK):  # its last words
                    yield chunk
                self.say(f"{source} is another file now: reading that one")
                return
            elif os.fstat(file.fileno()).st_size < file.tell():
                self.say(f"{source} was truncated: reading it from its start")
                yield ANEW  # what was read of an unfinished line is not to be finished
                return
            else:
                yield None
                time.sleep(POLL)


@final
@dataclass(frozen=True)
class InputLines:
    """The lines of standard input, until it ends or `stopping` says so.

    What arrives is new, whatever was read before; if it is `replayed`, it begins again with what
    was, and that is passed over. What has been taken in when it is to stop is still given.
    """

    replayed: bool = False
    stopping: Callable[[], bool] = lambda: False

    def lines(self, source: str, offset: int) -> Iterator[bytes | None]:
        """The lines that arrive; None whenever nothing came for a moment."""
        yield from _split("standard input", _after(offset if self.replayed else 0, self._chunks()))

    def _chunks(self) -> Iterator[bytes | None]:
        # Past Python's own buffer: what waits in it would not count as ready.
        number = sys.stdin.fileno()
        while not self.stopping():
            chunk = os.read(number, PIPE) if _ready(number) else None
            if chunk == b"":
                return
            yield chunk


Lines = FileLines | InputLines


def numbered(
    lines: Lines, source: str, offset: int, number: int
) -> Iterator[tuple[bytes | None, tuple[int, int]]]:
    """What `lines` gives from a byte and a line on, and the byte and the line where each ends."""
    for raw in lines.lines(source, offset):
        if raw == ANEW:
            offset = number = 0
        elif raw is not None:
            offset, number = offset + len(raw), number + 1
        yield raw, (offset, number)


def text_of(raw: bytes, first: bool) -> str:
    """A line as text, without its end, and without the mark that some programs put first.

    >>> text_of(b"\\xef\\xbb\\xbfa,b\\r\\n", first=True)
    'a,b'
    """
    if first:
        if raw[:2] in OTHER_FILES:
            raise Malformed(OTHER_FILES[raw[:2]])
        raw = raw.removeprefix(b"\xef\xbb\xbf")
    try:
        return raw.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise Malformed("it is not UTF-8 text") from None


def _split(source: str, chunks: Iterator[bytes | None]) -> Iterator[bytes | None]:
    rest = b""
    for chunk in chunks:
        if chunk is None:
            yield None
            continue
        if chunk == ANEW:
            rest = b""
            continue
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line + b"\n"
        if len(rest) > LONGEST:
            raise DataError(f"{source} has a line of more than {LONGEST >> 20} MiB: is it text?")
    if rest:
        yield rest


def _after(offset: int, chunks: Iterator[bytes | None]) -> Iterator[bytes | None]:
    left = offset
    for chunk in chunks:
        if chunk is None or len(chunk) > left:
            yield chunk and chunk[left:]
        left -= min(left, len(chunk or b""))
    if left:
        raise DataError(
            f"standard input ended after {offset - left} bytes, and {offset} were read before: "
            f"leave replayed=True out if what arrives is new"
        )


def _ready(number: int) -> bool:
    try:  # waits a moment
        return bool(select.select([number], [], [], POLL)[0])
    except OSError:  # not every system can wait for every file
        return True


def _is_other(source: str, file: BinaryIO) -> bool:
    try:
        return not os.path.samestat(Path(source).stat(), os.fstat(file.fileno()))
    except FileNotFoundError:  # there is none of that name yet
        return False


def _misplaced(file: BinaryIO, offset: int) -> str | None:
    """Why reading cannot go on at a byte; None if it can, and the file is at that byte then."""
    if os.fstat(file.fileno()).st_size < offset:
        return "is shorter than what was read of it"
    file.seek(offset - 1)
    last, following = file.read(1), file.read(1)
    file.seek(offset)
    # The last line of a file may have had no end when it was read.
    if last == b"\n" or following in (b"", b"\r", b"\n"):
        return None
    return "has no end of a line where reading ended"
