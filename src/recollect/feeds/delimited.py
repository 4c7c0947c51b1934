"""Read CSV files, or text files with another delimiter."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import ClassVar, final

from recollect.errors import DataError, InputError
from recollect.feeds.cells import is_missing, is_number
from recollect.feeds.columns import column_of, inferred_columns, saved_kinds
from recollect.feeds.lines import NEW_FILE, STDIN, decoded_line, numbered
from recollect.feeds.reader import LineReader, Row
from recollect.feeds.record import Layout, Malformed, Record

MOST_LINES = 100
RARE = 20  # a row of words that occurs again in at most one of 20 rows may be a header
OTHER_DELIMITERS = ";\t|,"


@final
@dataclass(frozen=True)
class Header:
    """The names of the columns, to find rows that repeat them: in any case and order."""

    names: list[str]
    known: frozenset[str]

    @classmethod
    def of(cls, names: Sequence[str]) -> Header:
        """Create the header with these names."""
        bare = [_bare(name) for name in names]
        return cls(bare, frozenset(bare))

    def is_repeated(self, row: list[str]) -> bool:
        """Return whether a row has the names of the header, in any order."""
        if _bare(row[0]) not in self.known or len(row) != len(self.names):
            return False
        return sorted(map(_bare, row)) == sorted(self.names)

    def check_order(self, row: list[str], where: str) -> None:
        """Raise `DataError` if a row has the names of the header in another order."""
        if [*map(_bare, row)] != self.names:
            raise DataError(
                f"{where}: it is a header with another order of the columns "
                f"({', '.join(row)}): write the rows after it in the order of the rows before it"
            )


def _bare(cell: str) -> str:
    return cell.strip().casefold()


@final
@dataclass
class Delimited(LineReader):
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
    ...     [(each.x, each.label, each.position[:2]) for each in Delimited().read(str(path))]
    [(array([1.5], dtype=float32), 'walk', (20, 2))]
    """

    untyped: ClassVar[bool] = True

    delimiter: str = ","
    header: bool | None = None
    _header: Header | None = field(default=None, init=False, repr=False, compare=False)

    def _names(self, layout: Layout) -> tuple[str | None, list[str]]:
        columns, label = layout["columns"], layout["label"]
        names = [columns[number] for number in layout["features"]]
        return None if label is None else columns[label], names

    def _rows(self, source: str, start: Sequence[int]) -> Iterator[Row | None]:
        unclosed: list[str] = []  # the lines so far of a row with an open quote
        never = Malformed("a quoted cell is never closed")
        # Only the first row of a file can be a header. A pipe always starts anew, maybe with one.
        first = not start[0] or source == STDIN
        number = start[1]
        for raw, end in numbered(self.source, source, start):
            if raw is None:
                yield None
                continue
            if raw == NEW_FILE:
                if unclosed:
                    yield Row(never, (end[0], number))
                unclosed, first = [], True
                continue
            number = end[1]
            try:
                text = decoded_line(raw)
                row = self._cells([*unclosed, text]) if unclosed or text.strip() else []
            except Malformed as why:
                unclosed = []
                yield Row(why, end)
                continue
            unclosed = [*unclosed, text] if row is None else []
            if row:
                yield Row(row, end, first)
                first = False
        if unclosed:
            yield Row(never, (start[0], number))

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
        there = takewhile(lambda row: row is buffered[0] or not row.first, buffered)
        rows = [row.found for row in there if not isinstance(row.found, Malformed)]
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
        if headed:
            header = Header.of(names)
            values = [row for row in values if not header.is_repeated(row)]
        named = len(columns) - (self._unnamed(columns, values) if headed else 0)
        label, features = self._chosen(columns[:named])
        if not values:
            rest = [row if isinstance(row.found, Malformed)
                    else Row(_wrong_count(row.found, names), row.end)
                    for row in buffered[1:]]  # fmt: skip
            return rest if final else buffered
        cells = {n: [row[n] for row in values] for n in features}
        found = inferred_columns(columns, cells, self.how, untyped=True)
        if headed and not columns[0] and 0 in found:
            self.how.say(
                "column 1 has no name, so it may be a row index, which is not a feature: "
                "ignore=['1'] leaves it out"
            )
        self.layout = {
            "columns": columns, "headed": headed, "label": label, "features": [*found],
            **saved_kinds([*found.values()]),
        }  # fmt: skip
        return buffered[headed:]

    def _unnamed(self, columns: list[str], rows: list[list[str]]) -> int:
        """Count the last columns without a name or a cell, which come from commas at line ends."""
        count = 0
        while count < len(columns) - 1 and not columns[-1 - count]:
            if any(row[-1 - count].strip() for row in rows):
                break
            count += 1
        if count and rows:
            last = "column has" if count == 1 else f"{count} columns have"
            self.how.say(f"the last {last} no name and no cells: ignored")
        return count if rows else 0

    def _is_header(self, names: list[str], rows: list[list[str]]) -> bool:
        if self.header is not None:
            return self.header
        if self.label in names and not is_number(self.label or ""):
            return True
        if not self._without_numbers(names):
            return False
        header = Header.of(names)
        others = [row for row in rows if not header.is_repeated(row)]
        repeats = len(rows) - len(others)
        if RARE * repeats > len(rows) and not _has_numbers_below(names, others):
            others = rows  # it may be a row of categories like others, not a header
        # A name does not occur again in its column; a category does.
        return not any(
            name and any(len(row) > n and row[n].strip() == name for row in others)
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
        return not any(is_number(cell) for n, cell in enumerate(cells) if n != label)

    def _record(self, row: Row, source: str) -> Record | None:
        assert self.layout is not None
        assert self.table is not None
        if row.first and self._is_repeated_header(row.found, source):
            return None
        cells, columns, target = row.found, self.layout["columns"], self.layout["label"]
        if self.layout["headed"]:
            self._header = self._header or Header.of(columns)
            if self._header.is_repeated(cells):
                self._header.check_order(cells, f"{source}, line {row.end[1]}")
                raise Malformed("it repeats the header, as where files were joined")
        if len(cells) != len(columns):
            raise _wrong_count(cells, columns)
        x = self.table.features([cells[column] for column in self.layout["features"]])
        label = None if target is None else cells[target].strip() or None
        if self.how.id is None and not self.how.keep:
            return Record(x, label, source, row.end)
        passed = {name: cells[column_of(name, columns)].strip() or None for name in self.how.passed}
        return Record(x, label, source, row.end, *self.how.parted(passed))


def _wrong_count(row: list[str], names: list[str]) -> Malformed:
    """Return what is wrong with a row that has more or fewer cells than there are columns."""
    return Malformed(f"it has {len(row)} column{'s' * (len(row) != 1)}, not {len(names)}")


def _has_numbers_below(names: list[str], rows: list[list[str]]) -> bool:
    """Return whether most cells of a column are numbers, and its name is not."""
    return any(
        not is_number(name)
        and 2 * sum(len(row) > n and is_number(row[n]) for row in rows) > len(rows) > 0
        for n, name in enumerate(names)
    )
