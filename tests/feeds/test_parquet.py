"""Parquet files: a few rows at a time, from any row on."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recollect.errors import DataError, InputError, MissingExtraError
from recollect.feeds import Faults, Parquet

Written = Callable[..., str]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """The path of a file with those columns, in row groups of four."""

    def write(columns: Mapping[str, Any], name: str = "rows.parquet") -> str:
        pq.write_table(pa.table(columns), tmp_path / name, row_group_size=4)
        return str(tmp_path / name)

    return write


def rows_of(reader: Parquet, path: str) -> list[tuple[list[float], object]]:
    return [(record.x.tolist(), record.label) for record in reader.read(path)]


def test_numeric_columns_and_the_last_as_label(written: Written) -> None:
    path = written({"a": [1, 2], "b": [0.5, 1.5], "on": [True, False],
                    "kind": ["x", None]})  # fmt: skip
    assert rows_of(Parquet(), path) == [([1, 0.5, 1], "x"), ([2, 1.5, 0], None)]
    assert rows_of(Parquet("kind", ["b"]), path) == [([0.5], "x"), ([1.5], None)]
    assert rows_of(Parquet("a", ignore=["on", "kind"]), path) == [([0.5], 1), ([1.5], 2)]


def test_a_column_of_lists(written: Written) -> None:
    path = written({"x": [[1.0, 2.0], [3.0, 4.0]], "y": [7, 8]})
    assert rows_of(Parquet("y", ["x"]), path) == [([1, 2], 7), ([3, 4], 8)]


def test_reading_continues_after_any_row(written: Written) -> None:
    path = written({"a": np.arange(11.0), "y": np.arange(11) % 3})
    first = Parquet()
    records = list(first.read(path))
    assert [record.position[0] for record in records] == [*range(1, 12)]
    for number, record in enumerate(records):
        rest = rows_of_records(Parquet(layout=first.layout).read(path, record.position))
        assert rest == rows_of_records(records[number + 1 :])


def rows_of_records(records: Any) -> list[tuple[Any, ...]]:
    return [(record.x.tolist(), record.label, record.position) for record in records]


@pytest.mark.parametrize("bad", [float("inf"), 1e39])
def test_a_bad_row_is_named_or_left_out(bad: float, written: Written) -> None:
    path = written({"a": [1.0, bad, 3.0], "y": ["u", "v", "w"]})
    with pytest.raises(DataError, match=r"rows\.parquet, row 2: a feature is not a finite 32-bit"):
        rows_of(Parquet(), path)
    skipping = Parquet(faults=Faults(skip=True))
    assert rows_of(skipping, path) == [([1], "u"), ([3], "w")]
    assert skipping.faults.count == 1


def test_lists_of_another_length_are_bad(written: Written) -> None:
    path = written({"x": [[1.0, 2.0], [3.0]], "y": [7, 8]})
    with pytest.raises(DataError, match=r"row 2: its features have the shape \[1\], not \[2\]"):
        rows_of(Parquet("y", ["x"]), path)


def test_what_cannot_be_read(written: Written, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=r"cannot read .*text as Parquet"):
        rows_of(Parquet(), str(tmp_path / "text"))
    with pytest.raises(DataError, match=r"cannot read .*nowhere as Parquet"):
        rows_of(Parquet(), str(tmp_path / "nowhere"))
    path = written({"a": [1.0], "y": ["u"]})
    with pytest.raises(InputError, match="there is no column 'z'"):
        rows_of(Parquet("z"), path)
    with pytest.raises(DataError, match="fewer rows than were read before"):
        list(Parquet().read(path, (2,)))


def test_a_second_file_must_have_the_same_columns(written: Written) -> None:
    reader = Parquet()
    assert len(rows_of(reader, written({"a": [1.0], "y": ["u"]}))) == 1
    with pytest.raises(DataError, match=r"two.parquet has no column 'a' \(it has: b, y\)"):
        rows_of(reader, written({"b": [1.0], "y": ["u"]}, "two.parquet"))


def test_without_pyarrow_the_extra_is_named(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written({"a": [1.0], "y": ["u"]})
    real = builtins.__import__

    def none(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ModuleNotFoundError(name, name=name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", none)
    with pytest.raises(MissingExtraError, match=r'pip install "recollect\[parquet\]"'):
        rows_of(Parquet(), path)


def test_only_some_rows_are_in_memory_at_a_time(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written({"a": np.arange(100.0), "y": np.arange(100)})
    sizes = []
    real = pq.ParquetFile.iter_batches

    def watched(self: Any, *arguments: Any, **more: Any) -> Any:
        for batch in real(self, *arguments, **more):
            sizes.append(len(batch))
            yield batch

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", watched)
    records = Parquet().read(path)
    next(records)
    assert sizes == [100, 4], "those looked at, and one row group of twenty-five"


def test_integers_that_a_float_cannot_represent_are_rounded(written: Written) -> None:
    times = [1_700_000_000_123_456_789, 1_700_000_060_123_456_789]
    path = written({"time": times, "a": [0.5, 1.5], "kind": ["x", "y"]})
    first, second = (float(np.float32(time)) for time in times)
    assert rows_of(Parquet(), path) == [([first, 0.5], "x"), ([second, 1.5], "y")]
