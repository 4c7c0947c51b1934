"""Lines of files that grow and of pipes."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from recollect.errors import DataError
from recollect.feeds import Delimited, FileLines, Reading, Record, open_feed
from recollect.feeds import lines as lines_module
from recollect.feeds.trail import Trail


def test_lines_are_the_same_whatever_the_size_of_a_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"one\n\ntwo\r\nthree, long\n\xf0\x9f\x99\x82\nlast"
    path = tmp_path / "text"
    path.write_bytes(content)
    whole = content.splitlines(keepends=True)
    for size in (1, 2, 3, 7, 100):
        monkeypatch.setattr(lines_module, "CHUNK", size)
        assert list(FileLines().lines(str(path), Trail(0, 0))) == whole
        assert list(FileLines().lines(str(path), Trail(4, 1))) == whole[1:]


def test_a_line_without_end_does_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines_module, "LONGEST", 1 << 20)
    path = tmp_path / "zeros"
    with path.open("wb") as file:
        file.truncate(1 << 26)
    with pytest.raises(DataError, match="a line of more than 1 MiB: check that it is text"):
        list(FileLines().lines(str(path), Trail(0, 0)))


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot read .*: Is a directory"):
        list(FileLines().lines(str(tmp_path), Trail(0, 0)))


def test_a_followed_file_gives_whole_lines_as_they_are_finished(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("1,x\n2")
    pieces = [",y", "\n3,", "z", "\n", '4,"two\n', 'lines"\n', "5,v\n6,"]
    waiting: list[threading.Event] = [threading.Event() for _ in pieces]

    def write() -> None:
        for piece, turn in zip(pieces, waiting, strict=True):
            turn.wait(10)
            with path.open("a") as file:
                file.write(piece)

    writer = threading.Thread(target=write)
    writer.start()
    turns, found, quiet = iter(waiting), [], 0
    for record in Delimited(source=FileLines(str(path))).read(str(path)):
        if record is not None:
            found.append((record.x.tolist(), record.label))
            continue
        turn = next(turns, None)
        if turn is not None:
            turn.set()
            time.sleep(0.01)
        else:
            quiet += 1
            if quiet == 3:
                break
    writer.join()
    assert found == [([1], "x"), ([2], "y"), ([3], "z"), ([4], "two\nlines"), ([5], "v")]


def test_only_the_last_of_several_files_is_followed(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,x\n2,y")
    (tmp_path / "b.csv").write_text("3,x\n4,y")
    sources = [str(tmp_path / "a.csv"), str(tmp_path / "b.csv")]
    records = open_feed(sources, Reading(follow=True)).records()
    assert [r.x.tolist() for r in (next(records) for _ in range(3)) if r] == [[1], [2], [3]]
    assert next(records) is None, "the last line may not be whole"


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[BinaryIO]:
    """The end of a pipe that is written to; standard input is the other."""
    reading, writing = os.pipe()
    with os.fdopen(reading) as source, os.fdopen(writing, "wb", buffering=0) as target:
        monkeypatch.setattr(sys, "stdin", source)
        yield target


def test_a_pipe_gives_what_has_come_and_says_when_it_is_silent(pipe: BinaryIO) -> None:
    records = open_feed(["-"]).records()
    assert next(records) is None
    pipe.write(b"v,kind\n1,x\n2,")
    assert shown(next(records)) == ([1], "x", (11, 2))
    assert next(records) is None
    pipe.write(b"y")
    assert next(records) is None, "the line may go on"
    pipe.close()
    assert [shown(record) for record in records] == [([2], "y", (14, 3))]


def test_a_pipe_that_continues_is_new_with_or_without_its_header(pipe: BinaryIO) -> None:
    layout = {"columns": ["v", "kind"], "headed": True, "label": 1, "features": [0]}
    pipe.write(b"v,kind\n3,z\n")
    pipe.close()
    records = open_feed(["-"], layout=layout).records({"-": (15, 3)})
    assert [shown(record) for record in records] == [([3], "z", (26, 5))]


def test_a_pipe_that_is_replayed_passes_over_what_was_seen(pipe: BinaryIO) -> None:
    layout = {"columns": ["1", "2"], "headed": False, "label": 1, "features": [0]}
    pipe.write(b"1,x\n2,y\n3,z\n")
    pipe.close()
    feed = open_feed(["-"], Reading(replayed=True), layout)
    assert [shown(record) for record in feed.records({"-": (8, 2)})] == [([3], "z", (12, 3))]


def test_a_pipe_that_is_replayed_must_be_long_enough(pipe: BinaryIO) -> None:
    pipe.write(b"1,x\n2,y\n3,z\n")
    pipe.close()
    feed = open_feed(["-"], Reading(replayed=True))
    with pytest.raises(DataError, match="ended after 12 bytes, but 99 were read before"):
        list(feed.records({"-": (99, 9)}))


def test_a_pipe_can_be_stopped_and_gives_what_was_taken(pipe: BinaryIO) -> None:
    pipe.write(b"1,x\n2,y\n3,z\n")
    feed = open_feed("-")
    records = feed.records()
    assert shown(next(records)) == ([1], "x", (4, 1))
    feed.stop()
    pipe.write(b"4,v\n")
    assert [shown(record) for record in records] == [([2], "y", (8, 2)), ([3], "z", (12, 3))]


def shown(record: Record | None) -> tuple[object, ...]:
    assert record is not None
    return record.x.tolist(), record.label, record.position


def test_a_last_line_that_was_read_too_early_is_named(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("v,kind\n1,x\n2,y\n3,lo")
    feed = open_feed(path)
    *_, last = [record for record in feed.records() if record]
    with path.open("a") as file:
        file.write("w\n4,x\n")
    with pytest.raises(DataError, match=r"its last line was still being written \(follow=True"):
        [*open_feed(path, None, feed.reader.layout).records({str(path): last.position})]


def test_rows_of_a_named_pipe_are_read_while_its_writer_waits(tmp_path: Path) -> None:
    path, turn = tmp_path / "pipe", threading.Event()
    os.mkfifo(path)

    def write() -> None:
        for start in (0, 2):  # two writers
            with path.open("w") as file:
                for number in (start, start + 1):
                    print(f"{number},x", file=file, flush=True)
                    turn.wait(10)
                    turn.clear()

    threading.Thread(target=write, daemon=True).start()
    found: list[float] = []
    began = time.monotonic()
    reading = Reading(kind="csv", header=False, follow=True)
    for record in open_feed(path, reading).records():
        if record is not None:
            found += record.x.tolist()
            turn.set()
        if len(found) == 4:
            break
    assert found == [0, 1, 2, 3]
    assert time.monotonic() - began < 9  # no row waited for the writer
