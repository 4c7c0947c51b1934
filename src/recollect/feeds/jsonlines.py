"""Read JSON lines: files with one JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from recollect.errors import DataError, InputError
from recollect.feeds.cells import leaves, plain_label
from recollect.feeds.lines import decoded_line, numbered
from recollect.feeds.reader import LineReader, Row
from recollect.feeds.record import Layout, Malformed, Record
from recollect.feeds.table import table_of

MOST_NOTICES = 5


@final
@dataclass
class JSONLines(LineReader):
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
    ...     [(each.x, each.label, each.position[:2]) for each in JSONLines().read(str(path))]
    [(array([1.5], dtype=float32), 'walk', (32, 1))]
    """

    label: str = "label"
    _known: set[str] = field(default_factory=set, init=False, repr=False, compare=False)
    _reported: int = field(default=0, init=False, repr=False, compare=False)

    def _names(self, layout: Layout) -> tuple[str | None, list[str]]:
        return self.label if self.how.labelled else None, layout["keys"]

    def _rows(self, source: str, start: Sequence[int]) -> Iterator[Row | None]:
        for raw, end in numbered(self.source, source, start):
            if not raw:  # no data yet, or the start of another file
                if raw is None:
                    yield None
                continue
            try:
                text = decoded_line(raw).strip()
                if end[0] == len(raw) and (text == "[" or text.startswith("[{")):
                    raise DataError(
                        f"{source} is one JSON array: write one object per line, as with "
                        f"jq -c '.[]'"
                    )
                if text:
                    yield Row(_object(text), end)
            except Malformed as why:
                yield Row(why, end)
            except RecursionError:
                yield Row(Malformed("it is nested too deeply"), end)

    def _record(self, row: Row, source: str) -> Record:
        found = row.found
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
        self._report_new_keys(row, source)
        label = plain_label(found.get(self.label)) if self.how.labelled else None
        x = self.table.features([found.get(key) for key in keys])
        passed = {key: found.get(key) for key in self.how.passed}
        return Record(x, label, source, row.end, *self.how.parted(passed))

    def _infer_columns(self, buffered: list[Row], source: str, *, final: bool) -> list[Row]:
        rows = [row.found for row in buffered if isinstance(row.found, dict)]
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
        _, chosen = self._chosen(names)
        wanted_keys = {names[number] for number in chosen}
        # A record with none of the keys is a bad row, not a row of missing values.
        rows = [row for row in rows if row.keys() & wanted_keys]
        values = {number: [row.get(names[number]) for row in rows] for number in chosen}
        self._known, self.layout = {*names}, self._inferred("keys", names, values)
        return buffered

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

    def _report_new_keys(self, row: Row, source: str) -> None:
        """Report each key that the first records did not have, once."""
        assert self.layout is not None
        found = row.found
        if not self._known:  # the first record after a stream was resumed
            self._known = {*found, *self.layout["keys"]}
        if not found.keys() <= self._known and self._reported < MOST_NOTICES:
            for key in found.keys() - self._known:
                self._reported += 1
                self.how.say(
                    f"{source}, line {row.end[1]}: the new key {key!r:.60} is ignored; start over "
                    f"to learn from it"
                )
            self._known |= found.keys()


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise Malformed(f"it is not valid JSON ({error}): every line must be one object") from None
    if not isinstance(found, dict):
        raise Malformed(f"it is not a JSON object but {text[:20]}: every line must be one object")
    return found
