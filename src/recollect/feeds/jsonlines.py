"""Read JSON lines: files with one JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, final

from recollect.errors import InputError
from recollect.feeds.cells import leaves
from recollect.feeds.columns import saved_kinds
from recollect.feeds.lines import FileLines, Lines, decoded_line, numbered
from recollect.feeds.record import Faults, Layout, Malformed, Position, Record, position_parts
from recollect.feeds.rows import chosen_columns, numbers, plain_label
from recollect.feeds.sniff import Handling, inferred_columns, look_ahead
from recollect.feeds.table import Table, table_of

__all__ = ["JSONLines"]

MOST_NOTICES = 5

Row = tuple[dict[str, Any] | Malformed, tuple[int, int]]


@final
@dataclass
class JSONLines:
    """Read one JSON object per line: one key holds the label, other keys the features.

    Without `features`, these are all keys of the first records, in order of appearance, except the
    label and `ignore`. Their types are inferred from the first records: see `Handling`. A key that
    a record does not have is a missing value; a key that first appears later is ignored, with a
    message. If the only feature is a nested list of numbers, its shape is preserved. A record
    without a label has no label key, or null.

    >>> from tempfile import TemporaryDirectory
    >>> from pathlib import Path
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "a.jsonl"
    ...     _ = path.write_text('{"speed": 1.5, "label": "walk"}\\n')
    ...     [(record.x, record.label, record.position) for record in JSONLines().read(str(path))]
    [(array([1.5], dtype=float32), 'walk', (32, 1))]
    """

    label: str = "label"
    features: Sequence[str] = ()
    ignore: Sequence[str] = ()
    source: Lines = field(default_factory=FileLines)
    faults: Faults = field(default_factory=Faults)
    layout: Layout | None = None
    how: Handling = field(default_factory=Handling)
    _table: Table | None = field(default=None, init=False, repr=False, compare=False)
    _known: set[str] = field(default_factory=set, init=False, repr=False, compare=False)
    _reported: int = field(default=0, init=False, repr=False, compare=False)

    def read(self, source: str, position: Position | None = None) -> Iterator[Record | None]:
        """Yield the records after a position: the byte and the line at which a record ends."""
        rows: Iterator[Row | None] = self._rows(source, *position_parts(source, position, int, int))
        buffered: list[Row] = []
        while self.layout is None:
            more = yield from look_ahead(rows, lambda row: _cells(row[0]))
            if not more:
                break
            buffered += more
            self._infer_columns(buffered, source)
        for each in chain(buffered, rows):
            if each is None:
                yield None
                continue
            row, end = each
            try:
                yield self._record(row, source, end)
            except Malformed as why:
                self.faults.meet(f"{source}, line {end[1]}", why)

    @property
    def table(self) -> Table | None:
        """The table that converts rows to features."""
        if self._table is None and self.layout is not None:
            self._table = table_of(self.layout, self.layout["keys"], self.how)
        return self._table

    @property
    def columns(self) -> tuple[str | None, Sequence[str]] | None:
        """The name of the label key and the names of the feature keys."""
        label = self.label if self.how.labelled else None
        return None if self.layout is None else (label, self.layout["keys"])

    def _rows(self, source: str, offset: int, number: int) -> Iterator[Row | None]:
        for raw, end in numbered(self.source, source, offset, number):
            if not raw:  # no data yet, or the start of another file
                if raw is None:
                    yield None
                continue
            try:
                text = decoded_line(raw, first=end[0] == len(raw))
                if text.strip():
                    yield _object(text), end
            except Malformed as why:
                yield why, end
            except RecursionError:
                yield Malformed("it is nested too deeply"), end

    def _record(
        self, found: dict[str, Any] | Malformed, source: str, end: tuple[int, int]
    ) -> Record:
        if isinstance(found, Malformed):
            raise found
        assert self.layout is not None
        self._infer_list_sizes(found)
        assert self.table is not None
        keys = self.layout["keys"]
        if not found.keys() & {*keys}:
            raise Malformed(f"it has none of the keys {', '.join(keys[:12])}")
        if self.how.missing == "refuse" or self.layout["shape"] != [self.table.size]:
            for key in keys:
                if key not in found:
                    raise Malformed(f"it has no key {key!r}")
        self._report_new_keys(found, source, end)
        label = plain_label(found.get(self.label)) if self.how.labelled else None
        x = self.table.features([found.get(key) for key in keys])
        return Record(x, label, source, end, *self.how.parted({k: found.get(k) for k in
                                                               self.how.passed}))  # fmt: skip

    def _infer_columns(self, buffered: list[Row], source: str) -> None:
        """Infer the keys to read and their types from the first records."""
        while buffered and isinstance(buffered[0][0], Malformed):
            self.faults.meet(f"{source}, line {buffered[0][1][1]}", buffered[0][0])
            del buffered[0]
        rows = [row for row, _ in buffered if isinstance(row, dict)]
        if not rows:
            return
        names = list(dict.fromkeys(key for row in rows for key in row))
        wanted = [*self.features, *self.ignore, *self.how.categorical, *self.how.passed]
        wanted += [self.label] if self.how.labelled else []
        for key in wanted:
            if key not in names:
                raise InputError(
                    f"the first records have no key {key!r} (they have: {', '.join(names[:12])}): "
                    f"give label, features and ignore as they are spelled there, and write null "
                    f"for an unknown label"
                )
        ignored = [key for key in (*self.ignore, self.how.id) if key is not None]
        _, chosen = chosen_columns(
            names, self.label, self.features, ignored, labelled=self.how.labelled
        )
        wanted_keys = {names[number] for number in chosen}
        # A record with none of the keys is a bad row, not a row of missing values.
        rows = [row for row in rows if row.keys() & wanted_keys]
        values = {number: [row.get(names[number]) for row in rows] for number in chosen}
        categorical, kept = (
            [names.index(key) for key in each] for each in (self.how.categorical, self.how.keep)
        )
        columns = inferred_columns(names, values, self.how, categorical, kept, untyped=False)
        keys = [names[number] for number in columns]
        layout = {"keys": keys, **saved_kinds([*columns.values()])}
        if [column.kind for column in columns.values()] == ["list"]:
            first = next(row[keys[0]] for row in rows if isinstance(row.get(keys[0]), list))
            try:
                layout["shape"] = [*numbers(first).shape]
            except Malformed as why:
                raise InputError(f"the first record with {keys[0]!r}: {why}") from None
        else:
            layout["shape"] = [table_of(layout, keys, self.how).size]
        self._known, self.layout = {*names}, layout

    def _infer_list_sizes(self, found: dict[str, Any]) -> None:
        """Infer the lengths of lists for a layout that an earlier version saved without them."""
        assert self.layout is not None
        keys, shape = self.layout["keys"], self.layout["shape"]
        if "kinds" in self.layout or shape == [len(keys)] or self._table is not None:
            return
        values = [found.get(key) for key in keys]
        kinds = [["list", sum(1 for _ in leaves(v))] if isinstance(v, list) else ["number"]
                 for v in values]  # fmt: skip
        self._table = table_of({**self.layout, "kinds": kinds}, keys, self.how)

    def _report_new_keys(self, found: dict[str, Any], source: str, end: tuple[int, int]) -> None:
        """Report each key that the first records did not have, once."""
        assert self.layout is not None
        if not self._known:  # the first record after a stream was resumed
            self._known = {*found, *self.layout["keys"]}
        if not found.keys() <= self._known and self._reported < MOST_NOTICES:
            for key in found.keys() - self._known:
                self._reported += 1
                self.how.say(
                    f"{source}, line {end[1]}: the new key {key!r:.60} is ignored; start over to "
                    f"learn from it"
                )
            self._known |= found.keys()


def _cells(row: dict[str, Any] | Malformed) -> int:
    if isinstance(row, Malformed):
        return 1
    return sum(len(value) if isinstance(value, list) else 1 for value in row.values())


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise Malformed(f"it is not valid JSON ({error}): every line must be one object") from None
    if not isinstance(found, dict):
        raise Malformed(f"it is not a JSON object but {text[:20]}: every line must be one object")
    return found
