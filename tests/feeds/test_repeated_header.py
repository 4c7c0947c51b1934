"""Files that were joined: the header stands again between their rows."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from recollect.errors import DataError
from recollect.feeds import Feed, Reading, open_feed

WHY = "line {0}: it repeats the header, as where files were joined"


def numbers(count: int) -> str:
    return "u,v,k\n" + "".join(f"{n},{n % 7}.5,{'xy'[n % 2]}\n" for n in range(count))


def categories(count: int) -> str:
    rng = random.Random(count)
    rows = [[rng.choice(["red", "blue"]), rng.choice(["round", "square"])] for _ in range(count)]
    return "u,v,k\n" + "".join(f"{u},{v},{rng.choice('xy')}\n" for u, v in rows)


def read(path: Path, text: str, **how: bool | None) -> tuple[int, set[object], Feed]:
    path.write_text(text)
    feed = open_feed(path, Reading(**how))  # type: ignore[arg-type]
    records = [record for record in feed.records() if record]
    return len(records), {record.label for record in records}, feed


@pytest.mark.parametrize(
    ("form", "count"),
    [(numbers, 2), (numbers, 50), (numbers, 2000), (categories, 50), (categories, 2000)],
)
def test_it_is_a_bad_row(form: Callable[[int], str], count: int, tmp_path: Path) -> None:
    text, path = form(count), tmp_path / "both.csv"
    with pytest.raises(DataError, match=WHY.format(count + 2)):
        read(path, text + text)
    found, labels, feed = read(path, text + text.replace("u,v,k", " u, v,k "), skip_bad=True)
    assert (found, labels) == (2 * count, {"x", "y"})
    assert feed.faults.count == 1
    assert feed.reader.columns == ("k", ["u", "v"])


@pytest.mark.parametrize("count", [50, 2000])
def test_in_another_case_it_is_a_bad_row_too(count: int, tmp_path: Path) -> None:
    text, path = numbers(count), tmp_path / "both.csv"
    with pytest.raises(DataError, match=WHY.format(count + 2)):
        read(path, text + text.replace("u,v,k", "U,V,K"))


@pytest.mark.parametrize("skip_bad", [False, True])
@pytest.mark.parametrize("count", [50, 2000])
def test_another_order_of_the_columns_is_an_error(
    count: int, skip_bad: bool, tmp_path: Path
) -> None:
    text = numbers(count) + "v,U,k\n" + "".join(f"{n % 7}.5,{n},x\n" for n in range(count))
    why = rf"both\.csv, line {count + 2}: .* another order of the columns \(v, U, k\)"
    with pytest.raises(DataError, match=why):
        read(tmp_path / "both.csv", text, skip_bad=skip_bad)


def test_rows_of_words_that_occur_again_are_not_headers(tmp_path: Path) -> None:
    text = "red,stop\nblue,go\n" * 30
    found, labels, feed = read(tmp_path / "words.csv", text)
    assert (found, labels) == (60, {"stop", "go"})
    assert feed.reader.columns == ("2", ["1"])


def test_without_a_header_it_is_a_row(tmp_path: Path) -> None:
    text = categories(50)
    found, labels, _ = read(tmp_path / "words.csv", text + text, header=False)
    assert (found, labels) == (102, {"x", "y", "k"})
