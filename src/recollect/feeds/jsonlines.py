"""One JSON object on every line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, final

from recollect.errors import InputError
from recollect.feeds.cells import leaves
from recollect.feeds.lines import FileLines, Lines, numbered, text_of
from recollect.feeds.record import Faults, Layout, Malformed, Position, Record, parts
from recollect.feeds.rows import chosen_columns, numbers, plain_label
from recollect.feeds.sniff import Handling, look_ahead, settled
from recollect.feeds.table import Table, kinds_of, table_of

__all__ = ["JSONLines"]

MOST_NOTICES = 5

Row = tuple[dict[str, Any] | Malformed, tuple[int, int]]


@final
@dataclass
class JSONLines:
    """Reads objects, one on every line: one key has the label, others the features.

    Without `features` they are all keys of the first records, in the order of their arrival, but
    for the label and what is to be ignored. What their values are, these records show: see
    `Handling`. A key that a record lacks is missing; one that comes later is left out, after a
    message. If the only feature holds nested lists of numbers, its shape stays. A record without a
    label has null there, or no such key.

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
    _told: int = field(default=0, init=False, repr=False, compare=False)

    def read(self, source: str, position: Position | None = None) -> Iterator[Record | None]:
        """The records after a position, which is the byte and the line where one ends."""
        rows: Iterator[Row | None] = self._rows(source, *parts(source, position, int, int))
        held: list[Row] = []
        while self.layout is None:
            looked = yield from look_ahead(rows, lambda row: _cells(row[0]))
            if not looked:
                break
            held += looked
            self._settle(held, source)
        for each in chain(held, rows):
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
        """What makes features of rows."""
        if self._table is None and self.layout is not None:
            self._table = table_of(self.layout, self.layout["keys"], self.how)
        return self._table

    @property
    def columns(self) -> tuple[str | None, Sequence[str]] | None:
        """The names of the label and of the features."""
        label = self.label if self.how.labelled else None
        return None if self.layout is None else (label, self.layout["keys"])

    def _rows(self, source: str, offset: int, number: int) -> Iterator[Row | None]:
        for raw, end in numbered(self.source, source, offset, number):
            if not raw:  # nothing came, or another file begins
                if raw is None:
                    yield None
                continue
            try:
                text = text_of(raw, first=end[0] == len(raw))
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
        self._infer(found)
        assert self.table is not None
        keys = self.layout["keys"]
        if not found.keys() & {*keys}:
            raise Malformed(f"it has none of the keys {', '.join(keys[:12])}")
        if self.how.missing == "refuse" or self.layout["shape"] != [self.table.size]:
            for key in keys:
                if key not in found:
                    raise Malformed(f"it has no {key!r}")
        self._tell_new(found, source, end)
        label = plain_label(found.get(self.label)) if self.how.labelled else None
        x = self.table.features([found.get(key) for key in keys])
        return Record(x, label, source, end, *self.how.parted({k: found.get(k) for k in
                                                               self.how.passed}))  # fmt: skip

    def _settle(self, held: list[Row], source: str) -> None:
        """Let the first records say which keys are read, and what comes of them."""
        while held and isinstance(held[0][0], Malformed):
            self.faults.meet(f"{source}, line {held[0][1][1]}", held[0][0])
            del held[0]
        rows = [row for row, _ in held if isinstance(row, dict)]
        if not rows:
            return
        names = list(dict.fromkeys(key for row in rows for key in row))
        wanted = [*self.features, *self.ignore, *self.how.categorical, *self.how.passed]
        wanted += [self.label] if self.how.labelled else []
        for key in wanted:
            if key not in names:
                raise InputError(
                    f"the first records have no {key!r} (they have: {', '.join(names[:12])}): give "
                    f"label, features and ignore as they are called there; a label that is not "
                    f"known is null"
                )
        ignored = [key for key in (*self.ignore, self.how.id) if key is not None]
        _, chosen = chosen_columns(
            names, self.label, self.features, ignored, labelled=self.how.labelled
        )
        wanted_keys = {names[number] for number in chosen}
        rows = [
            row for row in rows if row.keys() & wanted_keys
        ]  # others are bad, not full of holes
        values = {number: [row.get(names[number]) for row in rows] for number in chosen}
        categorical, kept = (
            [names.index(key) for key in each] for each in (self.how.categorical, self.how.keep)
        )
        columns = settled(names, values, self.how, categorical, kept, untyped=False)
        keys = [names[number] for number in columns]
        layout = {"keys": keys, **kinds_of([*columns.values()])}
        if [column.kind for column in columns.values()] == ["list"]:
            first = next(row[keys[0]] for row in rows if isinstance(row.get(keys[0]), list))
            try:
                layout["shape"] = [*numbers(first).shape]
            except Malformed as why:
                raise InputError(f"the first record with {keys[0]!r}: {why}") from None
        else:
            layout["shape"] = [table_of(layout, keys, self.how).size]
        self._known, self.layout = {*names}, layout

    def _infer(self, found: dict[str, Any]) -> None:
        """The sizes of lists, if an earlier version saved the layout without them."""
        assert self.layout is not None
        keys, shape = self.layout["keys"], self.layout["shape"]
        if "kinds" in self.layout or shape == [len(keys)] or self._table is not None:
            return
        values = [found.get(key) for key in keys]
        kinds = [["list", sum(1 for _ in leaves(v))] if isinstance(v, list) else ["number"]
                 for v in values]  # fmt: skip
        self._table = table_of({**self.layout, "kinds": kinds}, keys, self.how)

    def _tell_new(self, found: dict[str, Any], source: str, end: tuple[int, int]) -> None:
        """Say once that a key is not among those of the first records."""
        assert self.layout is not None
        if not self._known:  # the first record after a stream was continued
            self._known = {*found, *self.layout["keys"]}
        if not found.keys() <= self._known and self._told < MOST_NOTICES:
            for key in found.keys() - self._known:
                self._told += 1
                self.how.say(
                    f"{source}, line {end[1]}: the key {key!r:.60} is new and is left out: a "
                    f"stream that starts over can learn from it"
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
        raise Malformed(f"it is not JSON, of which every line is one object: {error}") from None
    if not isinstance(found, dict):
        raise Malformed(f"it is not a JSON object but {text[:20]}: every line must be one")
    return found
