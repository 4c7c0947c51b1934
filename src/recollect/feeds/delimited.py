"""Rows of numbers with a label, separated by commas or another character (CSV)."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from numpy.typing import NDArray

from recollect.errors import DataError, InputError
from recollect.feeds.lines import ANEW, STDIN, FileLines, Lines, numbered, text_of
from recollect.feeds.record import Faults, Layout, Malformed, Position, Record, parts
from recollect.feeds.rows import chosen_columns, numbers

__all__ = ["Delimited"]

MOST_LINES = 100


@final
@dataclass
class Delimited:
    """Reads rows of text: one column is the label, the others (or `features`) are numbers.

    A column is named as in the header, or by its number from 1 on; the label is the last one unless
    it is given. Whether the first row is a `header` is seen from its features: names are not
    numbers. A record without a label has an empty cell there.

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

    def read(self, source: str, position: Position | None = None) -> Iterator[Record | None]:
        """The records after a position, which is the byte and the line where one ends."""
        start = parts(source, position, int, int)
        # Only the first row of a file can be a header; a pipe is new, and may begin with one.
        first = self.layout is None or not start[0] or source == STDIN
        for row, end in self._rows(source, *start):
            if row is None:
                yield None
                continue
            if not row:
                first = True
                continue
            headed, first = first and self._headed(row, source), False
            if headed:
                continue
            try:
                yield Record(*self._parsed(row), source, end)
            except Malformed as why:
                self.faults.meet(f"{source}, line {end[1]}", why)

    def _rows(
        self, source: str, offset: int, number: int
    ) -> Iterator[tuple[list[str] | None, tuple[int, int]]]:
        """The cells of every row, and where it ends; None whenever nothing came for a moment.

        A row without cells, which no file has, says that what follows is another file.
        """
        unclosed: list[str] = []  # the lines of a row whose quote is not yet closed

        def check_closed() -> None:
            if unclosed:
                self.faults.meet(f"{source}, line {number}", Malformed("a quote is never closed"))

        for raw, end in numbered(self.source, source, offset, number):
            if raw is None:
                yield None, end
                continue
            if raw == ANEW:
                check_closed()
                unclosed = []
                yield [], end
                continue
            number = end[1]
            try:
                text = text_of(raw, first=end[0] == len(raw))
                row = self._cells([*unclosed, text]) if unclosed or text.strip() else []
            except Malformed as why:
                unclosed = []
                self.faults.meet(f"{source}, line {number}", why)
                continue
            unclosed = [*unclosed, text] if row is None else []
            if row:
                yield row, end
        check_closed()

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

    def _headed(self, row: list[str], source: str) -> bool:
        """Whether the first row of a source is a header; it settles what the columns are."""
        names = [cell.strip() for cell in row]
        if self.layout is None:
            if names[0].startswith("{"):
                raise InputError(f"{source} has JSON lines, it seems: give kind='jsonl'")
            headed = self.header
            if headed is None:
                named = self.label in names and not _is_number(self.label or "")
                headed = named or self._without_numbers(names)
            columns = names if headed else [str(n + 1) for n in range(len(names))]
            label, features = chosen_columns(columns, self.label, self.features, self.ignore)
            self.layout = {
                "columns": columns, "headed": headed, "label": label, "features": features,
            }  # fmt: skip
            return headed
        if names == [*self.layout["columns"]]:
            return bool(self.layout["headed"])
        if self.layout["headed"] and self._without_numbers(names):
            raise DataError(
                f"{source} has other columns ({', '.join(names)}) than what was read before "
                f"({', '.join(self.layout['columns'])})"
            )
        return False

    def _without_numbers(self, cells: list[str]) -> bool:
        """Whether no feature is a number."""
        named = [str(number + 1) for number in range(len(cells))]
        label = named.index(self.label) if self.label in named else len(cells) - 1
        return not any(_is_number(cell) for n, cell in enumerate(cells) if n != label)

    def _parsed(self, row: list[str]) -> tuple[NDArray[Any], str | None]:
        assert self.layout is not None
        if len(row) != len(self.layout["columns"]):
            raise Malformed(f"it has {len(row)} columns, not {len(self.layout['columns'])}")
        try:
            x = numbers([float(row[column]) for column in self.layout["features"]])
        except ValueError:
            wrong = next(n for n in self.layout["features"] if not _is_number(row[n]))
            name = self.layout["columns"][wrong]
            raise Malformed(
                f"{row[wrong]!r} in column {name!r} is not a number: ignore=[{name!r}] leaves "
                f"the column out"
            ) from None
        return x, row[self.layout["label"]].strip() or None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
