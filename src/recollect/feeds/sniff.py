"""Which columns are learned from, and how, as the first rows show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeVar

from recollect.errors import InputError
from recollect.feeds.cells import as_text, is_missing, kind_of, leaves

__all__ = ["CELLS", "ROWS", "Column", "Handling", "look_ahead", "settled"]

ROWS, CELLS = 1000, 100_000  # how much is looked at before the first record is given
FEW = 20  # so many different texts are always categories
SHOWN = 30

Item = TypeVar("Item")


@dataclass(frozen=True)
class Handling:
    """What is done with columns that are more than numbers in every row.

    `missing`: a number that is missing is imputed by the median of the column's last values. A
    further input says that it was, for the columns with holes among the first rows ("auto") or for
    all ("impute"); with "refuse", such a row is bad. `categorical` names columns of categories that
    the rows do not show to be such; each has at most `categories` inputs, and one for all others.
    Columns of text and times are refused, or left out with `drop_text`. `id` and `keep` name
    columns that pass through to a record; the id is not learned from. Rows that are not `labelled`
    have no column with labels.
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
            raise InputError(f"missing is 'auto', 'impute' or 'refuse', not {self.missing!r}")
        if not 1 <= self.categories <= 10_000:
            raise InputError(f"categories must be in 1..10000, not {self.categories}")

    @property
    def passed(self) -> list[str]:
        """The columns that pass through: the id first, if there is one."""
        return [*([] if self.id is None else [self.id]), *self.keep]

    def parted(self, values: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The id, and the columns that are kept, of the values of those that pass through."""
        return (
            None if self.id is None else values[self.id], {name: values[name] for name in self.keep}
        )  # fmt: skip


class Column(NamedTuple):
    """A feature: its kind, and the size of a list or the inputs for categories.

    For a number or a truth value, a size of 1 says that it has an indicator.
    """

    kind: Literal["number", "boolean", "category", "list"]
    size: int = 0


def look_ahead(
    items: Iterator[Item | None], cells: Callable[[Item], int]
) -> Generator[None, None, list[Item]]:
    """The first items, as far as they are there: up to `ROWS`, or about `CELLS` cells.

    None is passed on while nothing has come; the list is what this generator returns.
    """
    found: list[Item] = []
    total = 0
    for item in items:
        if item is None:
            if found:
                break
            yield None
            continue
        found.append(item)
        total += cells(item)
        if len(found) >= ROWS or total >= CELLS:
            break
    return found


def settled(
    names: Sequence[str],
    columns: Mapping[int, Sequence[Any]],
    how: Handling,
    categorical: Iterable[int],
    kept: Iterable[int],
    *,
    untyped: bool,
) -> dict[int, Column]:
    """The columns to learn from, of `columns` with their first values; refused if one has text."""
    found: dict[int, Column] = {}
    named, passed = {*categorical}, {*kept}
    for number, values in columns.items():
        column = _column(values, how, number in named, untyped)
        if isinstance(column, Column):
            found[number] = column
        elif not how.drop_text and number not in passed:
            raise InputError(_advice(names[number], column, values))
    if not found:
        raise InputError(
            f"there is nothing to learn from in the columns {_few(names)}: text and times are left "
            f"out, and so is what is ignored"
        )
    return found


def _column(values: Sequence[Any], how: Handling, named: bool, untyped: bool) -> Column | str:
    """What a column is, or else why it cannot be learned from: it has "text", "times", ..."""
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
    # A few cells of something else are bad rows, not another kind of column.
    if 2 * (kinds["number"] + kinds["boolean"]) >= known:
        return Column("number", indicator)
    if 2 * kinds["time"] >= known:
        return "times"
    if 2 * kinds["nested"] >= known:
        return "objects or lists of other things than numbers"
    different = len({as_text(value) for value in values if not is_missing(value)})
    return "text" if different > max(FEW, known / 2) else Column("category", how.categories)


def _advice(name: str, what: str, values: Sequence[Any]) -> str:
    known = [value for value in values if not is_missing(value)]
    text = (
        f"column {name!r} has {what}, such as {as_text(known[0])[:SHOWN]!r}, which cannot be "
        f"learned from: ignore=[{name!r}] leaves it out, drop_text=True all such columns"
    )
    if what == "text":
        different = len({as_text(value) for value in known})
        text += (
            f", id={name!r} passes it through, and categorical=[{name!r}] makes categories of it "
            f"({different} different values in {len(known)} rows)"
        )
    return text


def _few(names: Sequence[str]) -> str:
    return ", ".join([*names[:12], "..."] if len(names) > 12 else names)
