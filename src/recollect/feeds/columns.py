"""The columns of a table: their choice, their types, and how they are saved and printed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from recollect.errors import InputError
from recollect.feeds.cells import as_text, is_missing, kind_of, leaves

FEW = 20  # a text column with at most this many distinct values is always categorical
MOST_NAMES, MOST_LETTERS = 12, 30  # in messages
WITH_COMMAS = re.compile(r"[+-]?\d+([ .']\d+)*(,\d+)+(\.\d+)?")  # 1,5 or 1.234,5 or 1,234.5
WORDS = {
    "number": ("number", "numbers"), "boolean": ("boolean", "booleans"),
    "list": ("list of numbers", "lists of numbers"), "category": ("category", "categories"),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Handling:
    """Options for missing values, categorical columns, text columns, and columns to pass through.

    `missing`: a missing number is imputed with the median of the column's recent values. A
    missing-value indicator is added as a further feature for the columns that have missing values
    among the first rows ("auto") or for all columns ("impute"); with "refuse", a row with a missing
    number is a bad row. `categorical` names columns to one-hot encode that are not detected as
    categorical, such as numeric codes. Every categorical column has an input for each of its first
    `categories` categories, and one for all others. Columns of text or times raise an error, or are
    left out with `drop_text`. `id` and `keep` name columns to pass through to the records; the id
    is not a feature. With `labelled=False`, no column is a label: labels come from another source.
    """

    missing: Literal["auto", "impute", "refuse"] = "auto"
    categorical: Sequence[str] = ()
    categories: int = 32
    drop_text: bool = False
    id: str | None = None
    keep: Sequence[str] = ()
    say: Callable[[str], None] = field(default=lambda text: None, compare=False)
    labelled: bool = True

    def __post_init__(self) -> None:
        if self.missing not in ("auto", "impute", "refuse"):
            raise InputError(f"missing must be 'auto', 'impute' or 'refuse', not {self.missing!r}")
        if not 1 <= self.categories <= 10_000:
            raise InputError(f"categories must be in 1..10000, not {self.categories}")

    @property
    def passed(self) -> list[str]:
        """The columns to pass through: `id`, if it is given, and then `keep`."""
        return [*([] if self.id is None else [self.id]), *self.keep]

    def parted(self, values: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Split the values of the columns to pass through into the id and the `keep` columns."""
        return (
            None if self.id is None else values[self.id], {name: values[name] for name in self.keep}
        )  # fmt: skip


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
            few = (
                [*chosen[: MOST_NAMES - 1], "...", chosen[-1]]
                if len(chosen) > MOST_NAMES
                else chosen
            )
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
    raise InputError(f"there is no column {wanted!r} (columns: {_listed(names)})")


def _listed(names: Sequence[str]) -> str:
    """Join names with commas; a long list is shortened."""
    return ", ".join([*names[:MOST_NAMES], "..."] if len(names) > MOST_NAMES else names)


def inferred_columns(
    names: Sequence[str],
    columns: Mapping[int, Sequence[Any]],
    how: Handling,
    *,
    untyped: bool,
) -> dict[int, Column]:
    """Infer the feature columns from their first values, by column index.

    Raises `InputError` for a column of text or times, unless it is dropped or passed through.
    """
    found: dict[int, Column] = {}
    named, passed = (
        {column_of(name, names) for name in each} for each in (how.categorical, how.keep)
    )
    for number, values in columns.items():
        column = _column(values, how, number in named, untyped)
        if isinstance(column, Column):
            found[number] = column
        elif not how.drop_text and number not in passed:
            raise InputError(_advice(names[number], column, values))
    if not found:
        raise InputError(
            f"none of the columns {_listed(names)} is a feature: they are ignored, or left out "
            f"as text or times"
        )
    return found


def _column(values: Sequence[Any], how: Handling, named: bool, untyped: bool) -> Column | str:
    """Infer a column, or return what makes it unusable: "text", "times", ..."""
    kinds = Counter(kind_of(value, untyped) for value in values)
    holes = kinds.pop("missing", 0)
    known = sum(kinds.values())
    if named:
        return Column("category", how.categories)
    if 2 * kinds["list"] >= known > 0:
        first = next(value for value in values if kind_of(value, untyped) == "list")
        return Column("list", sum(1 for _ in leaves(first)))
    indicator = int(how.missing == "impute" or (how.missing == "auto" and holes > 0))
    if 2 * kinds["boolean"] > known or (known and kinds["boolean"] == known):
        return Column("boolean", indicator)
    # A few cells of another kind are bad rows and do not change the kind of the column.
    if 2 * (kinds["number"] + kinds["boolean"]) >= known:
        return Column("number", indicator)
    if 2 * kinds["time"] >= known:
        return "times"
    if 2 * kinds["nested"] >= known:
        return "objects or lists that are not numeric"
    texts = [as_text(value) for value in values if not is_missing(value)]
    if 2 * sum(WITH_COMMAS.fullmatch(text) is not None for text in texts) >= known:
        return "numbers with commas"
    different = len({*texts})
    return "text" if different > max(FEW, known / 2) else Column("category", how.categories)


def _advice(name: str, what: str, values: Sequence[Any]) -> str:
    known = [value for value in values if not is_missing(value)]
    text = (
        f"column {name!r} has {what}, such as {as_text(known[0])[:MOST_LETTERS]!r}, which cannot "
        f"be used as features: ignore=[{name!r}] leaves it out, drop_text=True all such columns"
    )
    if what == "numbers with commas":
        text += (
            f", and categorical=[{name!r}] makes it categorical; write 1,5 as 1.5, and 1,234.5 as "
            f"1234.5"
        )
    if what == "text":
        different = len({as_text(value) for value in known})
        text += (
            f", id={name!r} passes it through, and categorical=[{name!r}] makes it categorical "
            f"({different} different values in {len(known)} rows)"
        )
    return text
