"""One JSON object on every line: what is read, from where on, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.errors import DataError, InputError, RecollectError
from recollect.feeds import Faults, JSONLines

Written = Callable[..., str]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """The path of a file with those objects, or lines."""

    def write(*objects: Any, start: str = "", end: str = "\n") -> str:
        path = tmp_path / "objects.jsonl"
        lines = [each if isinstance(each, str) else json.dumps(each) for each in objects]
        path.write_text(start + "".join(f"{line}{end}" for line in lines), "utf-8", newline="")
        return str(path)

    return write


def rows_of(reader: JSONLines, path: str) -> list[tuple[Any, object]]:
    found = [record for record in reader.read(path) if record is not None]
    assert all(record.x.dtype == np.float32 for record in found)
    return [(record.x.tolist(), record.label) for record in found]


def test_numbers_in_the_order_of_the_first_record(written: Written) -> None:
    path = written(
        {"b": 1, "a": 2.5, "label": "x", "on": True},
        {"label": "y", "a": 4, "b": 3, "on": False},
    )
    assert rows_of(JSONLines(), path) == [([1, 2.5, 1], "x"), ([3, 4, 0], "y")]
    assert rows_of(JSONLines(ignore=["on"]), path) == [([1, 2.5], "x"), ([3, 4], "y")]
    assert rows_of(JSONLines(features=["a"]), path) == [([2.5], "x"), ([4], "y")]


@pytest.mark.parametrize(("start", "end"), [("\ufeff", "\n"), ("\n", "\r\n"), ("", "\n\n")])
def test_marks_ends_and_empty_lines(start: str, end: str, written: Written) -> None:
    path = written({"a": 1, "label": 3}, {"a": 2, "label": 4}, start=start, end=end)
    assert rows_of(JSONLines(), path) == [([1], 3), ([2], 4)]


def test_one_key_with_nested_lists_keeps_its_shape(written: Written) -> None:
    path = written({"x": [[1, 2], [3, 4], [5, 6]], "y": "a"}, {"x": [[0, 0]] * 3, "y": "b"})
    assert rows_of(JSONLines("y", features=["x"]), path)[0] == ([[1, 2], [3, 4], [5, 6]], "a")


def test_lists_beside_numbers_are_laid_out_in_a_row(written: Written) -> None:
    path = written({"t": 9, "x": [1, [2, 3]], "label": "a"})
    assert rows_of(JSONLines(), path) == [([9, 1, 2, 3], "a")]


@pytest.mark.parametrize(
    ("label", "kept"),
    [("é", "é"), (3, 3), (3.0, 3), (2.5, 2.5), (True, True), (None, None), ("", None)],
)
def test_labels_keep_their_type(label: Any, kept: Any, written: Written) -> None:
    ((_, found),) = rows_of(JSONLines(), written({"a": 1, "label": label}))
    assert found == kept
    assert type(found) is type(kept)


def test_a_record_without_the_key_has_no_label(written: Written) -> None:
    path = written({"a": 1, "label": "x"}, {"a": 2})
    assert rows_of(JSONLines(), path) == [([1], "x"), ([2], None)]


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("{", "it is not valid JSON"),
        ("[1, 2]", "it is not a JSON object but [1, 2]: every line must be one object"),
        ("3", "it is not a JSON object but 3"),
        ("[" * 100_000, "it is nested too deeply"),
        ('{"label": "x"}', "it has none of the keys a, b"),
        ('{"a": "1", "b": 2, "label": "x"}', "'1' in column 'a' is not a number"),
        ('{"a": 1e39, "b": 2, "label": "x"}', "not a finite 32-bit number"),
        ('{"a": 1' + "0" * 400 + ', "b": 2, "label": "x"}', "a number is too large"),
        ('{"a": 1' + "0" * 5000 + ', "b": 2, "label": "x"}', "it is not valid JSON"),
        ('{"a": [1, 2], "b": 2, "label": "x"}', "[1, 2] in column 'a' is not a number"),
        ('{"a": 1, "b": 2, "label": {"x": 1}}', "a label must be text or a number"),
        ('{"a": 1, "b": 2, "label": [["x"]]}', "a list of labels must have text and numbers"),
        ('{"a": 1, "b": 2, "label": Infinity}', "a label must be text or a number"),
    ],
)
def test_a_bad_line_is_named_or_left_out(bad: str, why: str, written: Written) -> None:
    good = {"a": 1, "b": 2, "label": "x"}
    path = written(good, bad, good)
    with pytest.raises(DataError, match=r"objects\.jsonl, line 2: ") as refused:
        rows_of(JSONLines(), path)
    assert why in str(refused.value)
    skipping = JSONLines(faults=Faults(skip=True))
    assert rows_of(skipping, path) == [([1, 2], "x")] * 2
    assert skipping.faults.count == 1


def test_ragged_lists_are_refused(written: Written) -> None:
    path = written({"x": [[1, 2], [3]], "label": "a"})
    with pytest.raises(InputError, match="'x': its features are not numbers, or their lists"):
        rows_of(JSONLines(features=["x"]), path)


@pytest.mark.parametrize(
    ("reader", "why"),
    [
        (JSONLines("kind"), "the first records have no key 'kind' \\(they have: a, s, label\\)"),
        (JSONLines(features=["b"]), "the first records have no key 'b'"),
        (JSONLines(ignore=["b"]), "the first records have no key 'b'"),
        (JSONLines(ignore=["a", "s"]), "no features besides the label 'label'"),
    ],
)
def test_keys_that_are_not_there(reader: JSONLines, why: str, written: Written) -> None:
    with pytest.raises(InputError, match=why):
        rows_of(reader, written({"a": 1, "s": "text", "label": "x"}))


json_labels = st.one_of(st.text(max_size=6), st.integers(-(2**60), 2**60), st.booleans())


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=2,
                     max_size=2),
            json_labels,
        ),
        max_size=8,
    )
)  # fmt: skip
def test_what_was_written_is_read_from_any_position(
    rows: list[tuple[list[float], Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed-objects.jsonl"
    lines = [json.dumps({"a": x[0], "b": x[1], "label": label}) for x, label in rows]
    path.write_text("\n".join(lines), "utf-8")
    reader = JSONLines()
    records = [record for record in reader.read(str(path)) if record]
    expected = [(x, None if label == "" else label) for x, label in rows]
    assert [(record.x.tolist(), record.label) for record in records] == expected
    for number, record in enumerate(records):
        rest = list(JSONLines(layout=reader.layout).read(str(path), record.position))
        assert [r.position for r in rest if r] == [r.position for r in records[number + 1 :]]


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "label"]), inner)
    ),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(lines=st.lists(st.one_of(values.map(json.dumps).map(str.encode), st.binary(max_size=20))))
def test_anything_is_read_or_refused(
    lines: list[bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed-objects.jsonl"
    path.write_bytes(b"\n".join(lines))
    for skip in (False, True):
        with suppress(RecollectError):
            for record in JSONLines(faults=Faults(skip=skip)).read(str(path)):
                assert record is not None
                assert np.isfinite(record.x).all()
                hash(record.label)


def test_a_missing_list_is_named(written: Written) -> None:
    path = written({"v": [1, 2], "label": "x"}, {"v": None, "label": "y"})
    with pytest.raises(DataError, match="line 2: column 'v' is missing, and lists are not imputed"):
        rows_of(JSONLines(), path)
