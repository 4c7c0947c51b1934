"""Rows of numbers with a label, separated by commas or another character (CSV)."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, takewhile
from typing import final

from recollect.errors import DataError, InputError
from recollect.feeds.cells import is_missing
from recollect.feeds.lines import ANEW, STDIN, FileLines, Lines, numbered, text_of
from recollect.feeds.record import Faults, Layout, Malformed, Position, Record, parts
from recollect.feeds.rows import chosen_columns, column_of
from recollect.feeds.sniff import Handling, look_ahead, settled
from recollect.feeds.table import Table, kinds_of, table_of

__all__ = ["Delimited"]

MOST_LINES = 100

Row = tuple[list[str] | Malformed, tuple[int, int]]


@final
@dataclass
class Delimited:
    """Reads rows of text: one column is the label, the others (or `features`) are learned from.

    A column is named as in the header, or by its number from 1 on; the label is the last one unless
    it is given. Whether the first row is a `header` is seen from its features: names are not
    numbers, and do not come again. What the columns are, the first rows show: see `Handling`. A
    record without a label has an empty cell there.

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
        """The records after a position, which is the byte and the line where one ends."""
        start = parts(source, position, int, int)
        # Only the first row of a file can be a header; a pipe is new, and may begin with one.
        first = not start[0] or source == STDIN
        rows: Iterator[Row | None] = self._rows(source, *start)
        held: list[Row] = []
        while self.layout is None:
            looked = yield from look_ahead(
                rows, lambda row: len(row[0]) if isinstance(row[0], list) else 1
            )
            held = self._settled([*held, *looked], source, final=not looked)
            first = False
            if not looked:
                break
        for each in chain(held, rows):
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
            headed, first = first and self._headed(row, source), False
            if headed:
                continue
            try:
                yield self._record(row, source, end)
            except Malformed as why:
                self.faults.meet(f"{source}, line {end[1]}", why)

    @property
    def table(self) -> Table | None:
        """What makes features of rows."""
        if self._table is None and self.layout is not None:
            names = [self.layout["columns"][number] for number in self.layout["features"]]
            self._table = table_of(self.layout, names, self.how, untyped=True)
        return self._table

    @property
    def columns(self) -> tuple[str | None, Sequence[str]] | None:
        """The names of the label and of the features."""
        if self.layout is None or self.table is None:
            return None
        label = self.layout["label"]
        return None if label is None else self.layout["columns"][label], self.table.names

    def _rows(self, source: str, offset: int, number: int) -> Iterator[Row | None]:
        """The cells of every row, and where it ends; None whenever nothing came for a moment.

        A row without cells, which no file has, says that what follows is another file.
        """
        unclosed: list[str] = []  # the lines of a row whose quote is not yet closed
        never = Malformed("a quote is never closed")
        for raw, end in numbered(self.source, source, offset, number):
            if raw is None:
                yield None
                continue
            if raw == ANEW:
                if unclosed:
                    yield never, (end[0], number)
                unclosed = []
                yield [], end
                continue
            number = end[1]
            try:
                text = text_of(raw, first=end[0] == len(raw))
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
        """The cells of a row; None if a quote is still open at its end."""
        if len(lines) == 1 and '"' not in lines[0]:
            return lines[0].split(self.delimiter)
        try:
            return next(csv.reader(["\n".join(lines)], delimiter=self.delimiter, strict=True))
        except csv.Error as error:
            if "unexpected end" not in str(error):
                raise Malformed(str(error)) from None
        if len(lines) == MOST_LINES:
            raise Malformed(f"a quote is not closed within {MOST_LINES} lines")
        return None

    def _settled(self, held: list[Row], source: str, *, final: bool) -> list[Row]:
        """Let the first rows say what the columns are; those that are still to be read.

        Without a row of values nothing is settled, unless these rows are all there is.
        """
        while held and not isinstance(held[0][0], list):
            self.faults.meet(f"{source}, line {held[0][1][1]}", held[0][0])
            del held[0]
        if held and not held[0][0]:  # another file begins
            return self._settled(held[1:], source, final=final)
        there = takewhile(lambda row: not isinstance(row, list) or row, (row for row, _ in held))
        rows = [row for row in there if isinstance(row, list)]
        if not rows:
            return held
        names = [cell.strip() for cell in rows[0]]
        if names[0].startswith("{"):
            raise InputError(f"{source} has JSON lines, it seems: give kind='jsonl'")
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
            wrong = Malformed(f"it has another number of columns than {len(names)}")
            rest = [(wrong if isinstance(row, list) else row, end) for row, end in held[1:]]
            return [*rest] if final else held
        cells = {n: [row[n] for row in values] for n in features}
        found = settled(columns, cells, self.how, categorical, kept, untyped=True)
        self.layout = {
            "columns": columns, "headed": headed, "label": label, "features": [*found],
            **kinds_of([*found.values()]),
        }  # fmt: skip
        return held[headed:]

    def _is_header(self, names: list[str], rows: list[list[str]]) -> bool:
        if self.header is not None:
            return self.header
        if self.label in names and not _is_number(self.label or ""):
            return True
        # A name is not a value: it does not come again in its column, where a category does.
        return self._without_numbers(names) and not any(
            name and any(len(row) > n and row[n].strip() == name for row in rows)
            for n, name in enumerate(names)
        )

    def _headed(self, row: list[str], source: str) -> bool:
        """Whether the first row of a further source is a header; refused if it has other names."""
        assert self.layout is not None
        names, before = [cell.strip() for cell in row], [*self.layout["columns"]]
        if names == before:
            return bool(self.layout["headed"])
        if self.layout["headed"] and self._is_other_header(names, before):
            gone = [name for name in before if name not in names]
            new = [name for name in names if name not in before]
            changes = [f"{', '.join(each)} {what}" for each, what in
                       ((gone, "vanished"), (new, "appeared")) if each]  # fmt: skip
            raise DataError(
                f"{source} has other columns ({', '.join(names)}) than what was read before "
                f"({', '.join(before)}): {'; '.join(changes) or 'their order changed'}"
            )
        return False

    def _is_other_header(self, names: list[str], before: list[str]) -> bool:
        """Whether a row has names instead of values; with categories alone, known names tell."""
        assert self.layout is not None
        assert self.table is not None
        features = zip(self.layout["features"], self.table.columns, strict=True)
        numeric = [names[n] for n, each in features if each.kind == "number" and n < len(names)]
        if not numeric:
            return 2 * len({*names} & {*before}) > len(before)
        return self._without_numbers(names) and not all(map(is_missing, numeric))

    def _without_numbers(self, cells: list[str]) -> bool:
        """Whether no feature is a number."""
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
