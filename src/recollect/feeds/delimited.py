"""Read CSV files, or text files with another delimiter."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, takewhile
from typing import final

from recollect.errors import DataError, InputError
from recollect.feeds.cells import is_missing
from recollect.feeds.columns import saved_kinds
from recollect.feeds.lines import NEW_FILE, STDIN, FileLines, Lines, decoded_line, numbered
from recollect.feeds.record import Faults, Layout, Malformed, Position, Record, position_parts
from recollect.feeds.rows import chosen_columns, column_of
from recollect.feeds.sniff import Handling, inferred_columns, look_ahead
from recollect.feeds.table import Table, table_of

__all__ = ["Delimited"]

MOST_LINES = 100
OTHER_DELIMITERS = ";\t|,"

Row = tuple[list[str] | Malformed, tuple[int, int]]


@final
@dataclass
class Delimited:
    """Read CSV: one column is the label, the other columns (or `features`) are the features.

    Columns are given by their name in the header or by number, starting at 1. The default label is
    the last column. Without `header`, the first row is taken for a header if it contains the name
    of the label, or if none of its features is a number and none of its cells occurs again in the
    same column. The column types are inferred from the first rows: see `Handling`. An empty label
    cell means that the row has no label.

    >>> from tempfile import TemporaryDirectory
    >>> from pathlib import Path
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "a.csv"
    ...     _ = path.write_text("speed,kind\\n1.5,walk\\n")
    ...     [(record.x, record.label, record.position) for record in Delimited().read(str(path))]
    [(array([1.5], dtype=float32), 'walk', (20, 2))]
    """

    label: str | None = None
    features: Sequence[str] = ()
    ignore: Sequence[str] = ()
    delimiter: str = ","
    header: bool | None = None
    source: Lines = field(default_factory=FileLines)
    faults: Faults = field(default_factory=Faults)
    layout: Layout | None = None
    how: Handling = field(default_factory=Handling)
    _table: Table | None = field(default=None, init=False, repr=False, compare=False)

    def read(self, source: str, position: Position | None = None) -> Iterator[Record | None]:
        """Yield the records after a position: the byte and the line at which a record ends."""
        start = position_parts(source, position, int, int)
        # Only the first row of a file can be a header. A pipe always starts anew, maybe with one.
        first = not start[0] or source == STDIN
        rows: Iterator[Row | None] = self._rows(source, *start)
        buffered: list[Row] = []
        while self.layout is None:
            found = yield from look_ahead(
                rows, lambda row: len(row[0]) if isinstance(row[0], list) else 1
            )
            buffered = self._infer_columns([*buffered, *found], source, final=not found)
            first = False
            if not found:
                break
        for each in chain(buffered, rows):
            if each is None:
                yield None
                continue
            row, end = each
            if isinstance(row, Malformed):
                self.faults.meet(f"{source}, line {end[1]}", row)
                continue
            if not row:
                first = True
                continue
            headed, first = first and self._is_repeated_header(row, source), False
            if headed:
                continue
            try:
                yield self._record(row, source, end)
            except Malformed as why:
                self.faults.meet(f"{source}, line {end[1]}", why)

    @property
    def table(self) -> Table | None:
        """The table that converts rows to features."""
        if self._table is None and self.layout is not None:
            names = [self.layout["columns"][number] for number in self.layout["features"]]
            self._table = table_of(self.layout, names, self.how, untyped=True)
        return self._table

    @property
    def columns(self) -> tuple[str | None, Sequence[str]] | None:
        """The name of the label column and the names of the feature columns."""
        if self.layout is None or self.table is None:
            return None
        label = self.layout["label"]
        return None if label is None else self.layout["columns"][label], self.table.names

    def _rows(self, source: str, offset: int, number: int) -> Iterator[Row | None]:
        """Yield the cells of every row and where it ends; None while no data arrives.

        An empty list of cells marks the start of another file.
        """
        unclosed: list[str] = []  # the lines so far of a row with an open quote
        never = Malformed("a quoted cell is never closed")
        for raw, end in numbered(self.source, source, offset, number):
            if raw is None:
                yield None
                continue
            if raw == NEW_FILE:
                if unclosed:
                    yield never, (end[0], number)
                unclosed = []
                yield [], end
                continue
            number = end[1]
            try:
                text = decoded_line(raw, first=end[0] == len(raw))
                row = self._cells([*unclosed, text]) if unclosed or text.strip() else []
            except Malformed as why:
                unclosed = []
                yield why, end
                continue
            unclosed = [*unclosed, text] if row is None else []
            if row:
                yield row, end
        if unclosed:
            yield never, (offset, number)

    def _cells(self, lines: list[str]) -> list[str] | None:
        """Split a row into cells; None if a quote is still open at its end."""
        if len(lines) == 1 and '"' not in lines[0]:
            return lines[0].split(self.delimiter)
        try:
            return next(csv.reader(["\n".join(lines)], delimiter=self.delimiter, strict=True))
        except csv.Error as error:
            if "unexpected end" not in str(error):
                raise Malformed(str(error)) from None
        if len(lines) == MOST_LINES:
            raise Malformed(f"a quoted cell is not closed within {MOST_LINES} lines")
        return None

    def _infer_columns(self, buffered: list[Row], source: str, *, final: bool) -> list[Row]:
        """Infer the columns from the first rows, and return the rows that are still to be read.

        If there is no row of values yet, nothing is inferred unless the source has ended (`final`).
        """
        while buffered and not isinstance(buffered[0][0], list):
            self.faults.meet(f"{source}, line {buffered[0][1][1]}", buffered[0][0])
            del buffered[0]
        if buffered and not buffered[0][0]:  # the start of another file
            return self._infer_columns(buffered[1:], source, final=final)
        there = takewhile(
            lambda row: not isinstance(row, list) or row, (row for row, _ in buffered)
        )
        rows = [row for row in there if isinstance(row, list)]
        if not rows:
            return buffered
        names = [cell.strip() for cell in rows[0]]
        if names[0].startswith("{"):
            raise InputError(f"{source} looks like JSON lines: give kind='jsonl'")
        others = [each for each in OTHER_DELIMITERS if each in rows[0][0]]
        if len(names) == 1 and others:
            raise InputError(
                f"the first row of {source} does not contain {self.delimiter!r}, but "
                f"{others[0]!r}: give delimiter={others[0]!r}"
            )
        headed = self._is_header(names, rows[1:])
        columns = names if headed else [str(n + 1) for n in range(len(names))]
        values = [row for row in rows[headed:] if len(row) == len(names)]
        ignored = [*self.ignore, *([self.how.id] if self.how.id is not None else [])]
        label, features = chosen_columns(
            columns, self.label, self.features, ignored, labelled=self.how.labelled
        )
        categorical, kept = (
            [column_of(name, columns) for name in each]
            for each in (self.how.categorical, self.how.keep)
        )
        if not values:
            wrong = Malformed(f"its number of columns is not {len(names)}")
            rest = [(wrong if isinstance(row, list) else row, end) for row, end in buffered[1:]]
            return [*rest] if final else buffered
        cells = {n: [row[n] for row in values] for n in features}
        found = inferred_columns(columns, cells, self.how, categorical, kept, untyped=True)
        self.layout = {
            "columns": columns, "headed": headed, "label": label, "features": [*found],
            **saved_kinds([*found.values()]),
        }  # fmt: skip
        return buffered[headed:]

    def _is_header(self, names: list[str], rows: list[list[str]]) -> bool:
        if self.header is not None:
            return self.header
        if self.label in names and not _is_number(self.label or ""):
            return True
        # A name does not occur again in its column; a category does.
        return self._without_numbers(names) and not any(
            name and any(len(row) > n and row[n].strip() == name for row in rows)
            for n, name in enumerate(names)
        )

    def _is_repeated_header(self, row: list[str], source: str) -> bool:
        """Return whether the first row of a later source is a header; raise if the names differ."""
        assert self.layout is not None
        names, before = [cell.strip() for cell in row], [*self.layout["columns"]]
        if names == before:
            return bool(self.layout["headed"])
        if self.layout["headed"] and self._is_other_header(names, before):
            gone = [name for name in before if name not in names]
            new = [name for name in names if name not in before]
            changes = [f"{', '.join(each)} {what}" for each, what in
                       ((gone, "missing"), (new, "new")) if each]  # fmt: skip
            raise DataError(
                f"{source} has other columns ({', '.join(names)}) than the rows before it "
                f"({', '.join(before)}): {'; '.join(changes) or 'the order is different'}"
            )
        return False

    def _is_other_header(self, names: list[str], before: list[str]) -> bool:
        """Return whether a row has names, not values.

        Without a numeric feature, it is a header if more than half of the known names occur in it.
        """
        assert self.layout is not None
        assert self.table is not None
        features = zip(self.layout["features"], self.table.columns, strict=True)
        numeric = [names[n] for n, each in features if each.kind == "number" and n < len(names)]
        if not numeric:
            return 2 * len({*names} & {*before}) > len(before)
        return self._without_numbers(names) and not all(map(is_missing, numeric))

    def _without_numbers(self, cells: list[str]) -> bool:
        named = [str(number + 1) for number in range(len(cells))]
        label = named.index(self.label) if self.label in named else len(cells) - 1
        label = label if self.how.labelled else -1
        return not any(_is_number(cell) for n, cell in enumerate(cells) if n != label)

    def _record(self, row: list[str], source: str, end: tuple[int, int]) -> Record:
        assert self.layout is not None
        assert self.table is not None
        columns = self.layout["columns"]
        if len(row) != len(columns):
            raise Malformed(f"it has {len(row)} columns, not {len(columns)}")
        x = self.table.features([row[column] for column in self.layout["features"]])
        target = self.layout["label"]
        label = None if target is None else row[target].strip() or None
        if self.how.id is None and not self.how.keep:
            return Record(x, label, source, end)
        passed = {name: row[column_of(name, columns)].strip() or None for name in self.how.passed}
        return Record(x, label, source, end, *self.how.parted(passed))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
