"""The bases of the readers of tables, and of those that read them line by line."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar, NamedTuple

from recollect.errors import InputError
from recollect.feeds.cells import kind_of, numbers
from recollect.feeds.columns import (
    Handling,
    chosen_columns,
    column_of,
    inferred_columns,
    saved_kinds,
)
from recollect.feeds.lines import FileLines, Lines
from recollect.feeds.record import Faults, Layout, Malformed, Position, Record, position_parts
from recollect.feeds.table import Table, table_of

ROWS, CELLS = 1000, 100_000  # how much is read before the first record is returned


@dataclass
class TableReader:
    """Base of the readers of tables: it chooses the columns, and infers their types.

    A subclass sets `layout` from the first rows, and says which features and label it names.
    """

    untyped: ClassVar[bool] = False  # whether all cells are text, also those of numbers

    label: str | None = None
    features: Sequence[str] = ()
    ignore: Sequence[str] = ()
    faults: Faults = field(default_factory=Faults, kw_only=True)
    layout: Layout | None = field(default=None, kw_only=True)
    how: Handling = field(default_factory=Handling, kw_only=True)
    _table: Table | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def table(self) -> Table | None:
        """The table that converts rows to features."""
        if self._table is None and self.layout is not None:
            names = self._names(self.layout)[1]
            self._table = table_of(self.layout, names, self.how, untyped=self.untyped)
        return self._table

    @property
    def columns(self) -> tuple[str | None, Sequence[str]] | None:
        """The name of the label column and the names of the feature columns."""
        return None if self.layout is None else self._names(self.layout)

    def _names(self, layout: Layout) -> tuple[str | None, Sequence[str]]:
        """Return the name of the label (None if there is none) and the names of the features."""
        raise NotImplementedError

    def _chosen(self, names: Sequence[str]) -> tuple[int | None, list[int]]:
        """Return the indices of the label column and of the feature columns."""
        ignored = [*self.ignore, *([] if self.how.id is None else [self.how.id])]
        found = chosen_columns(
            names, self.label, self.features, ignored, labelled=self.how.labelled
        )
        for name in (*self.how.categorical, *self.how.keep):
            column_of(name, names)  # raises an error if there is no such column
        uses = {"be in features": self.features, "be in ignore": self.ignore,
                "be the id": [] if self.how.id is None else [self.how.id]}  # fmt: skip
        for use, given in uses.items():
            if found[0] in [column_of(name, names) for name in given]:
                raise InputError(
                    f"the column {names[found[0] or 0]!r} is the label, so it cannot {use}: "
                    f"label='NAME' chooses another label"
                )
        return found

    def _inferred(
        self, key: str, names: Sequence[str], values: Mapping[int, Sequence[Any]]
    ) -> dict[str, Any]:
        """Infer the features from their first values: their names (at `key`), kinds and shape."""
        columns = inferred_columns(names, values, self.how, untyped=False)
        features = [names[number] for number in columns]
        layout = {key: features, **saved_kinds([*columns.values()])}
        if [column.kind for column in columns.values()] == ["list"]:
            first = next(v for v in values[next(iter(columns))] if kind_of(v, False) == "list")
            try:
                layout["shape"] = [*numbers(first).shape]
            except Malformed as why:
                raise InputError(f"column {features[0]!r}: {why}") from None
        else:
            layout["shape"] = [table_of(layout, features, self.how).size]
        return layout


class Row(NamedTuple):
    """The content of a row, or what is wrong with it; where it ends; if it is a file's first."""

    found: Any
    end: tuple[int, ...]
    first: bool = False


@dataclass
class LineReader(TableReader):
    """Base of the readers of text: it infers the columns once, then reads row by row."""

    source: Lines = field(default_factory=FileLines, kw_only=True)

    def read(self, source: str, position: Position | None = None) -> Iterator[Record | None]:
        """Yield the records after a position: the byte and the line at which a record ends.

        The position also has the checksums by which the file is recognised: see `Trail`.
        """
        rows = self._rows(source, position_parts(source, position, int, int, more=(int, int)))
        buffered: list[Row] = []
        while self.layout is None:
            more = yield from _look_ahead(rows)
            buffered += more
            while buffered and isinstance(buffered[0].found, Malformed):
                bad = buffered.pop(0)
                self.faults.meet(f"{source}, line {bad.end[1]}", bad.found)
            if buffered:
                buffered = self._infer_columns(buffered, source, final=not more)
            if not more:
                break
        for row in chain(buffered, rows):
            if row is None:
                yield None
                continue
            try:
                if isinstance(row.found, Malformed):
                    raise row.found
                record = self._record(row, source)
            except Malformed as why:
                self.faults.meet(f"{source}, line {row.end[1]}", why)
            else:
                if record is not None:
                    yield record

    def _rows(self, source: str, start: Sequence[int]) -> Iterator[Row | None]:
        """Yield the rows after a position; None while no data arrives."""
        raise NotImplementedError

    def _infer_columns(self, buffered: list[Row], source: str, *, final: bool) -> list[Row]:
        """Infer the layout from the first rows, and return the rows that are still to be read.

        The first of them is not malformed. With `final`, the source has ended.
        """
        raise NotImplementedError

    def _record(self, row: Row, source: str) -> Record | None:
        """Return the record of a row that is not malformed; None if it is not one."""
        raise NotImplementedError


def _look_ahead(rows: Iterator[Row | None]) -> Generator[None, None, list[Row]]:
    """Collect the first rows that are available: at most `ROWS`, or about `CELLS` cells.

    This generator yields None until a row arrives, and returns the list.
    """
    found: list[Row] = []
    total = 0
    for row in rows:
        if row is None:
            if found:
                break
            yield None
            continue
        found.append(row)
        if not isinstance(row.found, Malformed):
            cells = row.found.values() if isinstance(row.found, dict) else row.found
            total += sum(len(cell) if isinstance(cell, list) else 1 for cell in cells)
        if len(found) >= ROWS or total >= CELLS:
            break
    return found
