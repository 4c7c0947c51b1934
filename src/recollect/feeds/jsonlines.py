"""One JSON object on every line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from numpy.typing import NDArray

from recollect.errors import InputError
from recollect.feeds.lines import FileLines, Lines, numbered, text_of
from recollect.feeds.record import Faults, Label, Layout, Malformed, Position, Record, parts
from recollect.feeds.rows import numbers, plain_label

__all__ = ["JSONLines"]

NUMBERS = frozenset({int, float, bool})


@final
@dataclass
class JSONLines:
    """Reads objects, one on every line: one key has the label, others the features.

    Features are numbers, or lists of numbers, which may be nested. Without `features` they are
    those of the first record, in its order; all but the label, and what is to be ignored. If it is
    one key that holds nested lists, its shape stays. A record without a label has null there, or
    no such key.

    >>> from tempfile import TemporaryDirectory
    >>> from pathlib import Path
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "a.jsonl"
    ...     _ = path.write_text('{"speed": 1.5, "label": "walk", "id": "a7"}\\n')
    ...     [(record.x, record.label, record.position) for record in JSONLines().read(str(path))]
    [(array([1.5], dtype=float32), 'walk', (44, 1))]
    """

    label: str = "label"
    features: Sequence[str] = ()
    ignore: Sequence[str] = ()
    source: Lines = field(default_factory=FileLines)
    faults: Faults = field(default_factory=Faults)
    layout: Layout | None = None

    def read(self, source: str, position: Position | None = None) -> Iterator[Record | None]:
        """The records after a position, which is the byte and the line where one ends."""
        for raw, end in numbered(self.source, source, *parts(source, position, int, int)):
            if not raw:  # nothing came, or another file begins
                if raw is None:
                    yield None
                continue
            try:
                text = text_of(raw, first=end[0] == len(raw))
                if text.strip():
                    yield Record(*self._parsed(text), source, end)
            except Malformed as why:
                self.faults.meet(f"{source}, line {end[1]}", why)

    def _parsed(self, text: str) -> tuple[NDArray[Any], Label | None]:
        try:
            found = _object(text)
            if self.layout is None:
                self._settle(found)
            assert self.layout is not None
            x = numbers(_values(found, self.layout["keys"]), self.layout["shape"])
        except RecursionError:
            raise Malformed("it is nested too deeply") from None
        return x, plain_label(found.get(self.label))

    def _settle(self, found: Mapping[str, Any]) -> None:
        """Let the first record say which keys are read, and what shape comes of them."""
        for key in (self.label, *self.features, *self.ignore):
            if key not in found:
                raise InputError(
                    f"the first record has no {key!r} (it has: {', '.join(found)}): give label, "
                    f"features and ignore as they are called there; a label that is not known is "
                    f"null"
                )
        left = {self.label, *self.ignore}
        keys = [key for key in self.features or found if key not in left]
        if not self.features:
            keys = [key for key in keys if _is_numeric(found[key])]
        if not keys:
            raise InputError(f"the first record has no numbers besides the label {self.label!r}")
        self.layout = {"keys": keys, "shape": [*numbers(_values(found, keys)).shape]}


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise Malformed(f"it is not JSON, of which every line is one object: {error}") from None
    if not isinstance(found, dict):
        raise Malformed(f"it is not a JSON object but {text[:20]}: every line must be one")
    return found


def _values(found: Mapping[str, Any], keys: Sequence[str]) -> Any:
    """The values of those keys: flat, but as they are where it is one key that has a list."""
    try:
        values = [found[key] for key in keys]
    except KeyError as missing:
        raise Malformed(f"it has no {missing.args[0]!r}") from None
    if {*map(type, values)} <= NUMBERS:
        return values
    for key, value in zip(keys, values, strict=True):
        if not _is_numeric(value):
            raise Malformed(f"{value!r:.40} in {key!r} is not a number, nor lists of numbers")
    return values[0] if len(values) == 1 else [*_leaves(values)]


def _is_numeric(value: Any) -> bool:
    return all(type(leaf) in NUMBERS for leaf in _leaves(value)) and value != []


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for part in value:
            yield from _leaves(part)
    else:
        yield value
