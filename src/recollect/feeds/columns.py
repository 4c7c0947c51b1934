"""The feature columns of a table: their kinds, and how they are saved and printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

__all__ = ["Column", "described", "saved_kinds"]

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
