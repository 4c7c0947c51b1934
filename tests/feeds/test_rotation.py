"""A followed file that is cut, renamed or replaced, as happens to logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recollect.errors import DataError
from recollect.feeds import Reading, open_feed

CSV = ("v,kind", "{0},{1}")
JSONL = (None, '{{"v": {0}, "label": "{1}"}}')


class Log:
    """A file that is followed, and what was read and said of it."""

    def __init__(self, path: Path, form: tuple[str | None, str], **how: Any) -> None:
        self.path, (self.header, self.form) = path, form
        self.said: list[str] = []
        self._how = how

    def begin(self, *numbers: int, end: str = "\n") -> None:
        """Write a file of this name from its start."""
        lines = [] if self.header is None else [self.header]
        lines += [self.form.format(number, "xy"[number % 2]) for number in numbers]
        self.path.write_text("\n".join(lines) + end)

    def follow(self, position: tuple[int, ...] | None = None, layout: Any = None) -> Iterator[Any]:
        """Numbers and the line of each, None where nothing came."""
        reading = Reading(follow=True, say=self.said.append, **self._how)
        feed = open_feed([str(self.path)], reading, layout)
        for record in feed.records({str(self.path): position} if position else None):
            yield record and (int(record.x[0]), record.position[1])


@pytest.fixture(params=["csv", "jsonl"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Log:
    return Log(tmp_path / f"log.{request.param}", CSV if request.param == "csv" else JSONL)


def numbers(found: Iterator[Any]) -> list[int]:
    """The numbers that come until nothing does."""
    return [number for number, _ in iter(lambda: next(found), None)]


def test_a_file_that_is_renamed_and_made_anew_is_read_from_its_start(log: Log) -> None:
    log.begin(1, 2)
    found = log.follow()
    assert numbers(found) == [1, 2]
    old = log.path.rename(log.path.with_name("log.1"))
    assert numbers(found) == [], "there is none of this name yet"
    with old.open("a") as file:  # whoever writes may not have noticed yet
        file.write(log.form.format(3, "y") + "\n")
    assert numbers(found) == [3]
    with old.open("a") as file:
        file.write(log.form.format(4, "y"))  # its last line has no end
    log.begin(5, 6, 7)
    first = 1 if log.header is None else 2
    assert [next(found) for _ in range(3)] == [(4, first + 3), (5, first), (6, first + 1)]
    assert numbers(found) == [7]
    assert log.said == [f"{log.path} was replaced: reading the new file"]
    with log.path.open("a") as file:
        file.write(log.form.format(8, "y") + "\n")
    assert numbers(found) == [8]


def test_a_file_that_another_replaces_is_read_from_its_start(log: Log, tmp_path: Path) -> None:
    log.begin(*range(9))
    found = log.follow()
    assert numbers(found) == [*range(9)]
    for start in (20, 30):
        other = Log(tmp_path / "other", (log.header, log.form))
        other.begin(*range(start, start + 9))  # as long as the old one
        other.path.replace(log.path)
        assert numbers(found) == [*range(start, start + 9)]
    assert len(log.said) == 2


def test_a_file_that_is_cut_is_read_from_its_start(log: Log) -> None:
    log.begin(1, 2, 3, end="\n" + log.form.format(4, "x")[:3])
    found = log.follow()
    assert numbers(found) == [1, 2, 3]
    log.begin(5)
    assert numbers(found) == [5], "the rest of an unfinished line is gone"
    assert log.said == [f"{log.path} was truncated: reading it from its start"]


def test_other_columns_in_the_new_file_are_refused(tmp_path: Path) -> None:
    log = Log(tmp_path / "log.csv", CSV)
    log.begin(1, 2)
    found = log.follow()
    assert numbers(found) == [1, 2]
    log.path.rename(tmp_path / "old")
    log.path.write_text("w,sort\n1,x\n")
    with pytest.raises(DataError, match=r"other columns \(w, sort\)"):
        numbers(found)


def test_a_quote_that_the_old_file_never_closed(tmp_path: Path) -> None:
    log = Log(tmp_path / "log.csv", CSV, skip_bad=True)
    log.begin(1, end='\n2,"y\n')
    found = log.follow()
    assert numbers(found) == [1]
    log.path.rename(tmp_path / "old")
    log.begin(3, 4)
    assert numbers(found) == [3, 4]


def test_a_position_beyond_the_end_belongs_to_an_older_file(log: Log) -> None:
    log.begin(1, 2)
    layout: dict[str, Any] = {"keys": ["v"], "shape": [1]}
    if log.header:
        layout = {"columns": ["v", "kind"], "headed": True, "label": 1, "features": [0]}
    assert numbers(log.follow((10_000, 99), layout)) == [1, 2]
    assert log.said == [
        f"{log.path} is shorter than the part that was read before: reading it from its start"
    ]
    feed = open_feed([str(log.path)], None, layout)
    with pytest.raises(DataError, match="is shorter than the part that was read before"):
        list(feed.records({str(log.path): (10_000, 99)}))
