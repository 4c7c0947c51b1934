"""Rows of numbers with a label: what is read, from where on, and what is refused."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.errors import DataError, InputError, RecollectError
from recollect.feeds import Delimited, Faults, Reading, Record, open_feed

Written = Callable[[str | bytes], str]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """The path of a file with that content."""

    def write(content: str | bytes) -> str:
        path = tmp_path / "rows.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


def rows_of(reader: Delimited, path: str) -> list[tuple[list[float], object]]:
    found = [record for record in reader.read(path) if record is not None]
    assert all(record.x.dtype == np.float32 and record.x.ndim == 1 for record in found)
    return [(record.x.tolist(), record.label) for record in found]


@pytest.mark.parametrize(
    "text",
    [
        "a,b,kind\n1,2,x\n3,4,y\n",
        "1,2,x\n3,4,y\n",
        "1,2,x\r\n3,4,y\r\n",
        "1,2,x\n3,4,y",
        "\n1,2,x\n\n\n3,4,y\n\n",
        '1,"2","x"\n"3",4,"y"\n',
        "\ufeffa,b,kind\n1,2,x\n3,4,y\n",
        "\ufeff1,2,x\n3,4,y\n",
        " 1, 2 , x\n3e0,4.0 , y \n",
    ],
)
def test_the_same_rows_in_many_forms(text: str, written: Written) -> None:
    assert rows_of(Delimited(), written(text)) == [([1, 2], "x"), ([3, 4], "y")]


@pytest.mark.parametrize("label", ["kind", "2", "-2"])
def test_the_label_by_name_and_by_number(label: str, written: Written) -> None:
    path = written("a,kind,b\n1,x,2\n")
    assert rows_of(Delimited(label), path) == [([1, 2], "x")]


def test_without_a_header_columns_have_numbers(written: Written) -> None:
    path = written("7,x,1,2\n8,y,3,4\n")
    assert rows_of(Delimited("2", ignore=["1"]), path) == [([1, 2], "x"), ([3, 4], "y")]
    assert rows_of(Delimited("2", features=["4", "3"]), path) == [([2, 1], "x"), ([4, 3], "y")]


def test_a_number_may_be_a_label(written: Written) -> None:
    assert rows_of(Delimited(), written("1.5,0\n2.5,1\n")) == [([1.5], "0"), ([2.5], "1")]


def test_a_header_of_numbers_must_be_said(written: Written) -> None:
    path = written("1,2,3\n4,5,6\n")
    assert len(rows_of(Delimited(), path)) == 2
    assert rows_of(Delimited(header=True), path) == [([4, 5], "6")]
    assert rows_of(Delimited("2", header=True), path) == [([4, 6], "5")]


def test_words_in_the_first_row_can_be_data(written: Written) -> None:
    with pytest.raises(DataError, match="line 1: 'a' in column '1' is not a number"):
        rows_of(Delimited(header=False), written("a,b,kind\n1,2,x\n"))


def test_delimiters_quotes_and_text_of_any_language(written: Written) -> None:
    path = written('a;名前\n1;"Grün; ""weit"""\n2;"two\nlines"\n3;🙂\n')
    assert rows_of(Delimited(delimiter=";"), path) == [
        ([1], 'Grün; "weit"'),
        ([2], "two\nlines"),
        ([3], "🙂"),
    ]


def test_a_row_without_a_label(written: Written) -> None:
    assert rows_of(Delimited("kind"), written("kind,a\nx,1\n,2\n  ,3\n")) == [
        ([1], "x"),
        ([2], None),
        ([3], None),
    ]


@pytest.mark.parametrize("text", ["", "\n\n", "a,b,kind\n", "\ufeff"])
def test_nothing_to_read(text: str, written: Written) -> None:
    assert rows_of(Delimited(), written(text)) == []


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("1,x", "it has 2 columns, not 3"),
        ("1,2,x,y", "it has 4 columns, not 3"),
        ("one,2,x", "'one' in column 'a' is not a number: ignore=['a'] leaves the column out"),
        ("inf,2,x", "a feature is not a finite 32-bit number"),
        ("1e39,2,x", "a feature is not a finite 32-bit number"),
        ("9" * 400 + ",2,x", "a feature is not a finite 32-bit number"),
        ('"1"2,2,x', "expected after"),
        ("1,2,\xff", "it is not UTF-8 text: convert the file, as with iconv"),
        ("1", "it has 1 column, not 3"),
        ("1_0,2,x", "'1_0' in column 'a' is not a number"),
    ],
)
def test_a_bad_row_is_named_or_left_out(bad: str, why: str, written: Written) -> None:
    path = written(b"a,b,kind\n1,2,x\n" + bad.encode("latin-1") + b"\n3,4,y\n")
    with pytest.raises(DataError, match=r"rows\.csv, line 3: .*") as refused:
        rows_of(Delimited(), path)
    assert why in str(refused.value)
    assert "skip_bad=True" in str(refused.value)
    skipping = Delimited(faults=Faults(skip=True))
    assert rows_of(skipping, path) == [([1, 2], "x"), ([3, 4], "y")]
    assert skipping.faults.count == 1


def test_a_quote_that_is_never_closed(written: Written) -> None:
    with pytest.raises(DataError, match="line 3: a quoted cell is never closed"):
        rows_of(Delimited(), written('1,2,x\n3,4,"y\n5,6,z\n'))
    with pytest.raises(DataError, match="line 101: a quoted cell is not closed within 100 lines"):
        rows_of(Delimited(), written('1,2,x\n3,4,"y\n' + "5,6,z\n" * 500))


@pytest.mark.parametrize(
    ("reader", "why"),
    [
        (Delimited("sort"), "there is no column 'sort' \\(columns: a, b, kind\\)"),
        (Delimited("4"), "there is no column '4'"),
        (Delimited("0"), "there is no column '0'"),
        (Delimited(ignore=["c"]), "there is no column 'c'"),
        (Delimited(features=["a", "a"]), "the same feature is given twice"),
        (Delimited(ignore=["a", "b"]), "no features besides the label 'kind'"),
        (Delimited(delimiter=";"), "but ',': give delimiter=','"),
    ],
)
def test_columns_that_are_not_there(reader: Delimited, why: str, written: Written) -> None:
    with pytest.raises(InputError, match=why):
        rows_of(reader, written("a,b,kind\n1,2,x\n"))


def test_two_columns_of_one_name(written: Written) -> None:
    path = written("a,kind,kind\n1,2,x\n")
    with pytest.raises(InputError, match="several columns are named 'kind'"):
        rows_of(Delimited("kind"), path)
    assert rows_of(Delimited("3"), path) == [([1, 2], "x")]


def test_json_lines_are_recognised(written: Written) -> None:
    with pytest.raises(InputError, match="give kind='jsonl'"):
        rows_of(Delimited(), written('{"a": 1, "label": "x"}\n'))


def test_a_second_file_must_have_the_same_columns(tmp_path: Path) -> None:
    reader = Delimited()
    for name, text in (("one", "a,b,kind\n1,2,x\n"), ("two", "a,b,kind\n3,4,y\n")):
        (tmp_path / name).write_text(text)
        assert len(rows_of(reader, str(tmp_path / name))) == 1
    (tmp_path / "three").write_text("b,a,kind\n3,4,y\n")
    with pytest.raises(DataError, match=r"three has other columns \(b, a, kind\)"):
        rows_of(reader, str(tmp_path / "three"))
    (tmp_path / "four").write_text("3,4,y\n")
    assert rows_of(reader, str(tmp_path / "four")) == [([3, 4], "y")]


def test_reading_continues_after_any_record(written: Written) -> None:
    path = written('\ufeffa,kind\r\n1,"x\ny"\r\n\r\n2,z\r\n3,""\r\n4,w')
    first = Delimited()
    records = [record for record in first.read(path) if record]
    assert [record.position[1] for record in records] == [3, 5, 6, 7]
    for number, record in enumerate(records):
        again = Delimited(layout=first.layout)
        rest = [r for r in again.read(path, record.position) if r]
        assert [plain(r) for r in rest] == [plain(r) for r in records[number + 1 :]]


def plain(record: Record) -> tuple[object, ...]:
    return record.x.tolist(), record.label, record.position


def test_a_file_that_became_shorter(written: Written) -> None:
    path = written("1,x\n")
    with pytest.raises(DataError, match=r"rows\.csv is shorter than the part that was read"):
        list(Delimited().read(path, (100, 9)))


numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)
# A carriage return within a label would not survive: it is part of a line's end.
labels = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=8)


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(st.tuples(st.lists(numbers, min_size=3, max_size=3), labels), max_size=8),
    delimiter=st.sampled_from(",;\t|"),
    ending=st.sampled_from(["\n", "\r\n"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_what_was_written_is_read(
    rows: list[tuple[list[float], str]], delimiter: str, ending: str, quoting: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, lineterminator=ending, quoting=quoting)  # type: ignore[arg-type]
    writer.writerow(["a", "b", "c", "kind"])
    writer.writerows([*x, label] for x, label in rows)
    path = tmp_path_factory.getbasetemp() / "fuzzed-rows.csv"
    path.write_bytes(text.getvalue().encode())
    expected = [(x, label.replace(ending, "\n").strip() or None) for x, label in rows]
    assert rows_of(Delimited(delimiter=delimiter), str(path)) == expected


@settings(max_examples=300, deadline=None)
@given(
    content=st.one_of(
        st.binary(max_size=60),
        st.text('01.,"\n\r;-ena x\ufeff', max_size=60).map(str.encode),
        st.lists(st.sampled_from([b"1,2,x\n", b"1\n", b'"\n', b",,\n", b"a,b,c\n", b"\xff\n"])).map(
            b"".join
        ),
    )
)
def test_anything_is_read_or_refused(
    content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed-rows.csv"
    path.write_bytes(content)
    for skip in (False, True):
        positions = []
        with suppress(RecollectError):
            for record in Delimited(faults=Faults(skip=skip)).read(str(path)):
                assert record is not None
                assert np.isfinite(record.x).all()
                positions.append(record.position)
        assert positions == sorted(set(positions))
        assert not positions or int(positions[-1][0]) <= len(content)


def test_a_bad_row_after_a_position_is_not_taken_for_a_header(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("v,w,kind\n1,2,x\none\nthree,four,y\n5,6,z\n")
    feed = open_feed([str(path)], Reading(skip_bad=True))
    first, last = [record for record in feed.records() if record]
    assert feed.faults.count == 2
    again = open_feed([str(path)], Reading(skip_bad=True), feed.reader.layout)
    assert [r and r.position for r in again.records({str(path): first.position})] == [last.position]


@pytest.mark.parametrize(("commas", "count"), [(",", "column has"), (",,", "2 columns have")])
def test_commas_at_the_ends_of_lines_are_not_a_label(
    commas: str, count: str, written: Written
) -> None:
    path, said = written(f"a,b,k{commas}\n1,2,x{commas}\n3,4,y{commas} \n"), list[str]()
    feed = open_feed(path, Reading(say=said.append))
    assert [(r.x.tolist(), r.label) for r in feed.records() if r] == [([1, 2], "x"), ([3, 4], "y")]
    assert feed.reader.columns == ("k", ["a", "b"])
    assert said == [f"the last {count} no name and no cells: ignored"]
    again = open_feed(path, None, feed.reader.layout)
    assert [r.label for r in again.records() if r] == ["x", "y"]


@pytest.mark.parametrize("text", ["a,b,\n1,2,\n3,4,y\n", "a,b,k\n1,2,\n3,4,\n", "1,2,\n3,4,\n"])
def test_a_last_column_with_a_name_or_a_cell_is_the_label(text: str, written: Written) -> None:
    assert all(len(x) == 2 for x, _ in rows_of(Delimited(), written(text)))
