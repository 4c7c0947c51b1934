"""Read Parquet files in batches of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from recollect.errors import DataError
from recollect.extras import needs
from recollect.feeds.cells import plain_label
from recollect.feeds.columns import column_of
from recollect.feeds.reader import CELLS, TableReader
from recollect.feeds.record import (
    OTHER_FILE,
    Layout,
    Malformed,
    Position,
    Record,
    position_parts,
)
from recollect.feeds.table import Table, table_of
from recollect.feeds.trail import RowTrail

ROWS = 1024


@final
@dataclass
class Parquet(TableReader):
    """Read a Parquet file: one column is the label, the other columns are the features.

    Columns are given by name or by number, starting at 1. The default label is the last column. The
    column types are inferred from the first rows: see `Handling`. If the only feature is a nested
    list of numbers, its shape is preserved. A null label means that the row has no label.
    This needs pyarrow: `pip install "recollect[parquet]"`.
    """

    _all: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    def read(self, source: str, position: Position | None = None) -> Iterator[Record]:
        """Yield the records after a position: the number of rows before it, and their checksum."""
        start, *check = position_parts(source, position, int, more=(int,))
        pyarrow = _pyarrow()
        try:
            with pyarrow.parquet.ParquetFile(source) as file:
                yield from self._rows(source, file, start, check)
        except (OSError, pyarrow.ArrowException) as error:
            reason = str(error).splitlines()[0]
            raise DataError(f"cannot read {source} as Parquet: {reason}") from None

    @property
    def table(self) -> Table | None:
        """The table that converts rows to features."""
        layout = self.layout or {"kinds": []}
        if self._table is None and "kinds" not in layout:
            names = layout["features"]
            if layout.get("shape") not in (None, [len(names)]):  # as an earlier version wrote it
                self._table = table_of({**layout, "kinds": [["list", 0]]}, names, self.how)
        return super().table

    def _names(self, layout: Layout) -> tuple[str | None, list[str]]:
        return layout["label"], layout["features"]

    @property
    def _wanted(self) -> list[str]:
        """The feature columns, and the label column if there is one."""
        label, features = self.columns or (None, [])
        return [*features, *([] if label is None else [label])]

    def _rows(self, source: str, file: Any, start: int, check: Sequence[int]) -> Iterator[Record]:
        if file.metadata.num_rows < start:
            raise DataError(f"{source} has fewer rows than were read before: {OTHER_FILE}")
        if not file.metadata.num_rows:
            return
        if self.layout is None:
            self._infer_columns(file)
        self._check(source, file.schema_arrow)
        names = file.schema_arrow.names
        passed = [names[column_of(name, names)] for name in self.how.passed]
        wanted = list(dict.fromkeys([*self._wanted, *passed]))
        seen = RowTrail()
        row, first = 0, seen.begin(start)
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if row + rows <= first:
                row += rows
                continue
            for batch in file.iter_batches(ROWS, [group], wanted):
                skipped = min(max(first - row, 0), len(batch))
                row += skipped
                for make, values, label, through in self._parsed(batch.slice(skipped), passed):
                    row += 1
                    seen.advance(values)
                    if row <= start:  # only read to recognise the file
                        if row == start and check not in ([], [seen.check]):
                            raise DataError(
                                f"{source} has other rows than those that were read before: "
                                f"{OTHER_FILE}"
                            )
                        continue
                    try:
                        kind = plain_label(label)  # first: features change the table's state
                        yield Record(make(values), kind, source, (row, seen.check), *through)
                    except Malformed as why:
                        self.faults.meet(f"{source}, row {row}", why)

    def _infer_columns(self, file: Any) -> None:
        """Infer the columns from the schema and the first rows."""
        names: list[str] = file.schema_arrow.names
        label, chosen = self._chosen(names)
        few = max(min(ROWS, CELLS // len(names)), 1)
        sample = next(file.iter_batches(few, columns=[names[number] for number in chosen]))
        found = dict(zip(chosen, sample.to_pydict().values(), strict=True))
        label_name = None if label is None else names[label]
        self.layout = {"label": label_name, **self._inferred("features", names, found)}
        self._all = {*names}

    def _check(self, source: str, schema: Any) -> None:
        """Raise `DataError` if a column is missing or has an incompatible type."""
        assert self.table is not None
        names: list[str] = schema.names
        if missing := {*self._wanted} - {*names}:
            raise DataError(f"{source} has no column {min(missing)!r} (it has: {', '.join(names)})")
        for name, column in zip(self.table.names, self.table.columns, strict=True):
            if column.kind == "number" and not _may_be_number(schema.field(name).type):
                raise DataError(
                    f"column {name!r} of {source} has the type {schema.field(name).type}, but the "
                    f"rows before it have numbers there"
                )
        for name in sorted({*names} - self._all) if self._all else ():
            self.how.say(f"{source}: the new column {name!r} is ignored")
        self._all |= {*names}

    def _parsed(
        self, batch: Any, passed: list[str]
    ) -> Iterator[tuple[Callable[[Any], NDArray[Any]], Any, Any, tuple[Any, ...]]]:
        """Yield for every row: its feature function and values, its label, and its id and `kept`.

        The feature function is the fast one for purely numeric rows where possible.
        """
        assert self.columns is not None
        assert self.table is not None
        label, features = self.columns
        labels = [None] * len(batch) if label is None else batch.column(label).to_pylist()
        through: Iterable[tuple[Any, ...]] = repeat((), len(batch))
        if passed:
            others = zip(*(batch.column(name).to_pylist() for name in passed), strict=True)
            through = [
                self.how.parted(dict(zip(self.how.passed, row, strict=True))) for row in others
            ]
        table, columns = self.table, [batch.column(name) for name in features]
        if all(_is_number(each.type) for each in columns) and not table.has_categories:
            # Not "safe": large integers, such as times in nanoseconds, are rounded.
            wide = [
                each.cast("double", safe=False).to_numpy(zero_copy_only=False) for each in columns
            ]
            yield from zip(repeat(table.of_numbers), np.stack(wide, 1), labels, through)
        else:
            rows = zip(*(each.to_pylist() for each in columns), strict=True)
            yield from zip(repeat(table.features), rows, labels, through)


def _pyarrow() -> Any:
    with needs("pyarrow", extra="parquet", what="reading Parquet files"):
        import pyarrow
        import pyarrow.parquet
    return pyarrow


def _is_number(kind: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _may_be_number(kind: Any) -> bool:
    import pyarrow.types as types

    return _is_number(kind) or bool(types.is_decimal(kind) or types.is_null(kind))
