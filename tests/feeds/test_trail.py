"""A file that continues is told from another one under its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.errors import DataError
from recollect.feeds import Feed, Reading, Record, open_feed
from recollect.feeds import trail as trail_module
from recollect.feeds.trail import Trail

OTHER = "has other (lines|rows) than those that were read before: it is not the same file"


def text(numbers: Any, form: str = "{0:05},{0:05},{1}\n") -> str:
    return "".join(form.format(number, "xy"[number % 2]) for number in numbers)


def read(path: Path, last: Record | None = None, feed: Feed | None = None) -> list[Record]:
    """The records after the last one, read by another feed of the same layout."""
    feed = open_feed(path, Reading(), feed and feed.reader.layout)
    positions = {str(path): last.position} if last else None
    return [record for record in feed.records(positions) if record]


def first(path: Path, rows: int) -> tuple[Record, Feed]:
    """The record at which reading stops."""
    feed = open_feed(path)
    records = [record for record in feed.records() if record]
    return records[rows - 1], feed


@given(
    st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b" ") + b"\n"), max_size=60),
    st.integers(1, 40),
    st.integers(0, 60),
)
def test_the_checksums_do_not_depend_on_where_reading_started(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], block: int, stop: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trail_module, "BLOCK", block)
        path = tmp_path_factory.mktemp("trail") / "file"
        path.write_bytes(b"".join(lines))
        whole = Trail(0, 0)
        whole.known = True
        continued = None
        for number, line in enumerate(lines):
            if number == stop:
                continued = Trail(whole.offset, number, whole.position[2:])
                with path.open("rb") as file:
                    assert continued.compare(file)
            whole.advance(line)
            if continued is not None:
                continued.advance(line)
                assert continued.position == whole.position


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
@pytest.mark.parametrize("rows", [3, 1000])
def test_another_file_with_lines_of_the_same_length_is_refused(
    ending: str, rows: int, tmp_path: Path
) -> None:
    form = "{0:05},{1}\n" if ending == "csv" else '{{"v": 1{0:05}, "label": "{1}"}}\n'
    path = tmp_path / f"current.{ending}"
    path.write_text(text(range(rows), form))
    last, feed = first(path, rows)
    path.write_text(text(range(7, rows + 57), form))
    with pytest.raises(DataError, match=OTHER):
        read(path, last, feed)


def test_a_followed_file_that_was_rotated_meanwhile_is_read_from_its_start(
    tmp_path: Path,
) -> None:
    path, said = tmp_path / "log.csv", list[str]()
    path.write_text(text(range(100)))
    last, feed = first(path, 100)
    path.write_text(text(range(500, 650)))
    again = open_feed(path, Reading(follow=True, say=said.append), feed.reader.layout)
    records = again.records({str(path): last.position})
    found = [next(records) for _ in range(150)]
    assert [int(r.x[0]) for r in found if r] == [*range(500, 650)]
    assert found[0] is not None
    assert found[0].position[:2] == (14, 1)
    assert said == [
        f"{path} has other lines than those that were read before: reading it from its start"
    ]


@pytest.mark.parametrize("line", [0, 3, 999, 1998])
def test_a_line_that_was_removed_from_a_file_that_grew(line: int, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(text(range(2000)))
    last, feed = first(path, 2000)
    path.write_text(text([n for n in range(2100) if n != line]))
    with pytest.raises(DataError, match=OTHER):
        read(path, last, feed)


def test_another_beginning_with_the_same_last_lines(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(text([1, *[2] * 2000]))
    last, feed = first(path, 2000)
    path.write_text(text([3, *[2] * 3000]))
    with pytest.raises(DataError, match=OTHER):
        read(path, last, feed)


@pytest.mark.parametrize("end", ["\n", ""])
def test_a_file_that_grew_continues_after_any_row(end: str, tmp_path: Path) -> None:
    path, whole = tmp_path / "rows.csv", text(range(700)).splitlines()
    for stop in (1, 2, 292, 293, 586, 700):  # blocks end in these lines
        path.write_text("\n".join(whole[:stop]) + end)
        last, feed = first(path, stop)
        path.write_text("\n".join(whole) + "\n")
        rest = read(path, last, feed)
        assert [int(record.x[0]) for record in rest] == [*range(stop, 700)]
        assert [r.position for r in rest] == [r.position for r in read(path)[stop:]]


def test_a_position_of_an_earlier_version_continues(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(text(range(500)))
    last, feed = first(path, 300)
    rest = read(path, last._replace(position=last.position[:2]), feed)
    assert [r.position for r in rest] == [r.position for r in read(path)[300:]]


def test_a_huge_file_is_not_read_to_recognise_it(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    with path.open("wb") as file:
        file.truncate(1 << 40)
        file.seek(0, 2)
        file.write(b"\n")
    trail, read_before = Trail(1 << 40, 1), 0

    class Counting:
        def seek(self, to: int) -> None:
            source.seek(to)

        def read(self, size: int) -> bytes:
            nonlocal read_before
            read_before += size
            return source.read(size)

    with path.open("rb") as source:
        assert trail.compare(Counting())  # type: ignore[arg-type]
    assert read_before <= 3 * trail_module.BLOCK


class TestParquet:
    """The bytes of a Parquet file are written anew when rows are added, so rows are compared."""

    @pytest.fixture
    def write(self, tmp_path: Path) -> Callable[..., Path]:
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")

        def write(columns: dict[str, Any], **how: Any) -> Path:
            path = tmp_path / "rows.parquet"
            parquet.write_table(pyarrow.table(columns), path, **how)
            return path

        return write

    @staticmethod
    def table(start: int, stop: int, whole: bool = True) -> dict[str, Any]:
        v = np.arange(start, stop)
        colours = [["red", "blue", None][n % 3] for n in v]
        return {"v": v if whole else v.astype(float), "c": colours, "y": v % 2}

    @pytest.mark.parametrize("rows", [5, 64, 300])
    @pytest.mark.parametrize("columns", [["v", "y"], ["v", "c", "y"]])
    def test_other_rows_are_refused(
        self, rows: int, columns: list[str], write: Callable[..., Path]
    ) -> None:
        def some(start: int, stop: int) -> dict[str, Any]:
            return {name: self.table(start, stop)[name] for name in columns}

        last, feed = first(write(some(0, rows)), rows)
        path = write(some(1000, 1000 + 2 * rows))
        with pytest.raises(DataError, match=OTHER):
            read(path, last, feed)

    @pytest.mark.parametrize("stop", [1, 63, 64, 65, 128, 200, 300])
    @pytest.mark.parametrize("columns", [["v", "y"], ["v", "c", "y"]])
    def test_a_file_that_grew_continues(
        self, stop: int, columns: list[str], write: Callable[..., Path]
    ) -> None:
        def some(stop: int, whole: bool) -> dict[str, Any]:
            return {name: self.table(0, stop, whole)[name] for name in columns}

        last, feed = first(write(some(stop, True)), stop)
        path = write(some(300, False), row_group_size=50)
        rest = read(path, last, feed)
        assert [int(record.x[0]) for record in rest] == [*range(stop, 300)]
        assert [r.position for r in rest] == [r.position for r in read(path)[stop:]]
        assert len(read(path, last._replace(position=(stop,)), feed)) == 300 - stop
