"""The columns of a table: their choice, their kinds, and how they are saved and printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from recollect.errors import InputError

__all__ = ["Column", "chosen_columns", "column_of", "described", "listed", "saved_kinds"]

SHOWN = 12
WORDS = {
    "number": ("number", "numbers"), "boolean": ("boolean", "booleans"),
    "list": ("list of numbers", "lists of numbers"), "category": ("category", "categories"),
}  # fmt: skip


class Column(NamedTuple):
    """A feature column: its kind, and the length of a list or the number of category inputs.

    For a number or a boolean, a size of 1 means that it has a missing-value indicator.
    """

    kind: Literal["number", "boolean", "category", "list"]
    size: int = 0


def saved_kinds(columns: Sequence[Column]) -> dict[str, Any]:
    """Return the columns as saved in a layout; empty if all are numbers without indicators."""
    plain = all(column == Column("number") for column in columns)
    return {} if plain else {"kinds": [[*column] for column in columns]}


def described(label: str | None, names: Sequence[str], columns: Sequence[Column]) -> str:
    """Summarise the columns in one line; long lists of names are shortened.

    >>> described("kind", ["a", "b"], [Column("number", 1), Column("category", 8)])
    "learning 'kind' from 1 number (a?), 1 category (b); ? may be missing"
    """
    parts = []
    for kind, (one, several) in WORDS.items():
        chosen = [
            f"{name}{'?' if column.size and kind in ('number', 'boolean') else ''}"
            for name, column in zip(names, columns, strict=True)
            if column.kind == kind
        ]
        if chosen:
            few = [*chosen[: SHOWN - 1], "...", chosen[-1]] if len(chosen) > SHOWN else chosen
            word = one if len(chosen) == 1 else several
            parts.append(f"{len(chosen)} {word} ({', '.join(few)})")
    end = "; ? may be missing" if any("?" in part for part in parts) else ""
    what = "learning" if label is None else f"learning {label!r}"
    return f"{what} from {', '.join(parts)}{end}"


def chosen_columns(
    names: Sequence[str],
    label: str | None,
    features: Sequence[str],
    ignore: Sequence[str],
    *,
    labelled: bool = True,
) -> tuple[int | None, list[int]]:
    """Return the index of the label column (None if not `labelled`) and of the feature columns.

    The default label is the last column; the default features are all columns except the label and
    `ignore`. Columns are given by name or by number: 1 is the first, -1 the last.

    >>> chosen_columns(["time", "speed", "kind"], "3", [], ["time"])
    (2, [1])
    >>> chosen_columns(["speed", "kind"], "sort", [], [])
    Traceback (most recent call last):
    recollect.errors.InputError: there is no column 'sort' (columns: speed, kind)
    """
    target = column_of("-1" if label is None else label, names) if labelled else None
    ignored = {target, *(column_of(name, names) for name in ignore)}
    chosen = [column_of(name, names) for name in features] or range(len(names))
    left = [number for number in chosen if number not in ignored]
    if len(set(left)) != len(left):
        raise InputError("the same feature is given twice")
    if not left and target is None:
        raise InputError(f"there are no features (columns: {', '.join(names)})")
    if not left:
        raise InputError(
            f"there are no features besides the label {names[target or 0]!r} "
            f"(columns: {', '.join(names)}): check the delimiter and the label"
        )
    return target, left


def column_of(wanted: str, names: Sequence[str]) -> int:
    """Return the index of a column, given by name or by number."""
    if names.count(wanted) > 1:
        raise InputError(f"several columns are named {wanted!r}: give a number, starting at 1")
    if wanted in names:
        return names.index(wanted)
    digits = wanted.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) < 10:
        number = int(wanted)
        if 1 <= abs(number) <= len(names):
            return number % len(names) if number < 0 else number - 1
    raise InputError(f"there is no column {wanted!r} (columns: {listed(names)})")


def listed(names: Sequence[str]) -> str:
    """Join names with commas; a long list is shortened."""
    return ", ".join([*names[:SHOWN], "..."] if len(names) > SHOWN else names)
