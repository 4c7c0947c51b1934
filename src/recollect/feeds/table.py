"""Convert rows of a table to features: numbers, missing-value indicators, one-hot categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from recollect.errors import DataError
from recollect.feeds.cells import (
    LARGEST,
    as_text,
    as_truth,
    is_missing,
    is_number,
    leaves,
    numbers,
)
from recollect.feeds.columns import Column, Handling
from recollect.feeds.recent import Recent
from recollect.feeds.record import Malformed

PLAIN = frozenset({int, float, bool})


class TableState(NamedTuple):
    """An immutable snapshot of the state of a table."""

    recent: Recent | None
    words: tuple[Mapping[str, int], ...]

    def saved(self) -> dict[str, Any]:
        """Return the state as plain data, for a file."""
        recent = None if self.recent is None else self.recent.saved()
        return {"recent": recent, "words": [[*known] for known in self.words]}


@final
class Table:
    """Convert the values of a row, in column order, to float32 features `[F]`.

    Numbers, booleans and lists come first, in column order. They are followed by the missing-value
    indicators, and by the one-hot encoding of every categorical column: an input for each of the
    first categories that occur, and one for all others. A missing category is all zeros.

    >>> table = Table(["speed", "colour"], [Column("number", 1), Column("category", 2)], Handling())
    >>> for row in ([1.0, "red"], [None, "blue"], [3.0, "green"], [4.0, None]):
    ...     print(table.features(row))
    [1. 0. 1. 0. 0.]
    [1. 1. 0. 1. 0.]
    [3. 0. 0. 0. 1.]
    [4. 0. 0. 0. 0.]
    """

    def __init__(
        self,
        names: Sequence[str],
        columns: Sequence[Column],
        how: Handling,
        *,
        untyped: bool = False,
        shape: Sequence[int] | None = None,
    ) -> None:
        self.names, self.columns = list(names), list(columns)
        self._how, self._untyped, self._shape = how, untyped, shape
        self._sole = len(columns) == 1 and columns[0].kind == "list"
        self.numbers = sum(c.size if c.kind == "list" else 1 for c in columns if _numeric(c))
        # The indices of the numbers that have an indicator; those in lists do not.
        own = [[0] * c.size if c.kind == "list" else [c.size] for c in columns if _numeric(c)]
        self._indicated = np.flatnonzero([flag for flags in own for flag in flags])
        self._slots = [c.size for c in columns if c.kind == "category"]
        self.size = self.numbers + len(self._indicated) + sum(self._slots) + len(self._slots)
        self.plain = self.size == self.numbers and all(c.kind == "number" for c in columns)
        self._words: list[dict[str, int]] = [{} for _ in self._slots]
        imputes = how.missing != "refuse" and not self._sole and self.numbers > 0
        self._recent = Recent.of(self.numbers) if imputes else None
        self._reported = False

    def features(self, values: Sequence[Any]) -> NDArray[np.float32]:
        """Return the features of a row; raise `Malformed`, without any change, if it is bad."""
        if self._sole:
            if is_missing(values[0]):
                raise Malformed(f"column {self.names[0]!r} is missing, and lists are not imputed")
            return numbers(values[0], self._shape)
        # An underscore is not part of a number, although Python reads 3_47 as 347.
        if self.plain and (
            "_" not in "".join(values) if self._untyped else {*map(type, values)} <= PLAIN
        ):
            try:
                return self.of_numbers(np.array([*map(float, values)]))
            except OverflowError:
                raise Malformed("a number is too large") from None
            except ValueError:  # a word such as NA, or not a number
                pass
        found: list[float] = []
        texts: list[str | None] = []
        for name, column, value in zip(self.names, self.columns, values, strict=True):
            if column.kind == "category":
                texts.append(None if is_missing(value) else as_text(value))
            elif column.kind == "list":
                found += _list_values(name, value, column.size)
            else:
                found.append(self._number(name, value, column.kind == "boolean"))
        return self._filled(np.array(found, np.float64), texts)

    def of_numbers(self, wide: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return the features of a purely numeric row `[F]`, in which NaN is a missing value."""
        # A fast test that all but extreme rows pass; a comparison with NaN is false.
        if self.plain and np.vdot(wide, wide) <= LARGEST:
            x = wide.astype(np.float32)
            if self._recent is not None:
                self._recent = self._recent.with_row(x)
            return x
        return self._filled(wide, [])

    @property
    def has_categories(self) -> bool:
        """Whether there are categorical columns."""
        return bool(self._slots)

    def now(self) -> TableState:
        """Return a snapshot of the state after the rows so far."""
        return TableState(self._recent, tuple(self._words))

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Restore a state that `TableState.saved` returned."""
        try:
            words = [{str(w): n for n, w in enumerate(known)} for known in saved["words"]]
            recent = saved["recent"]
        except (TypeError, KeyError):
            raise DataError("the saved state of the columns is damaged") from None
        if len(words) != len(self._slots) or any(
            len(known) > most for known, most in zip(words, self._slots, strict=True)
        ):
            raise DataError("the saved categories do not match the categorical columns")
        self._words = words
        if self._recent is not None and recent is not None:
            self._recent = self._recent.restored(recent)

    def _number(self, name: str, value: Any, truth: bool) -> float:
        if is_missing(value):
            return np.nan
        found = as_truth(value) if truth else None
        if found is None and (
            is_number(value) if self._untyped else not isinstance(value, str | list | dict)
        ):
            try:
                found = float(value)
            except OverflowError:
                raise Malformed("a number is too large") from None
            except (ValueError, TypeError):
                pass
        if found is None:
            raise Malformed(
                f"{value!r:.40} in column {name!r} is not a {'boolean' if truth else 'number'}"
                f": ignore=[{name!r}] leaves the column out, and categorical=[{name!r}] makes it "
                f"categorical"
            )
        return found

    def _filled(
        self, wide: NDArray[np.float64], texts: Sequence[str | None]
    ) -> NDArray[np.float32]:
        """Impute NaN, and append the indicators and the one-hot categories: `[F]`."""
        hole = np.isnan(wide)
        if not bool((np.abs(wide[~hole]) <= LARGEST).all()):
            raise Malformed("a feature is not a finite 32-bit number")
        x = wide.astype(np.float32)
        if hole.any():
            if self._recent is None:
                raise Malformed(f"{self._first(hole)} is missing: missing='impute' imputes it")
            x, self._recent = self._recent.filled(x)
            self._report_imputed(hole)
        elif self._recent is not None:
            self._recent = self._recent.with_row(x)
        if self.plain:
            return x
        whole = np.zeros(self.size, np.float32)
        whole[: self.numbers] = x
        start = self.numbers + len(self._indicated)
        whole[self.numbers : start] = hole[self._indicated]
        for number, text in enumerate(texts):
            most, known = self._slots[number], self._words[number]
            if text is not None:
                if text not in known and len(known) < most:
                    # A new dictionary: snapshots share the old one.
                    known = self._words[number] = {**known, text: len(known)}
                whole[start + known.get(text, most)] = 1
            start += most + 1
        return whole

    def column_of(self, feature: int) -> str | None:
        """Return the name of the column of a numeric feature; None if it is another feature."""
        sizes = [c.size if c.kind == "list" else 1 for c in self.columns if _numeric(c)]
        names = [n for n, c in zip(self.names, self.columns, strict=True) if _numeric(c)]
        return str(np.repeat(names, sizes)[feature]) if feature < self.numbers else None

    def _first(self, hole: NDArray[np.bool_]) -> str:
        return f"column {self.column_of(int(hole.argmax()))!r}"

    def _report_imputed(self, hole: NDArray[np.bool_]) -> None:
        """Report the first missing value in a column without an indicator, once."""
        if self._how.missing == "auto" and not self._reported:
            own = np.zeros(self.numbers, bool)
            own[self._indicated] = True
            if (hole & ~own).any():
                self._reported = True
                self._how.say(
                    f"{self._first(hole & ~own)} has its first missing value: it is imputed, "
                    f"without a missing-value indicator (missing='impute' adds one for every "
                    f"column)"
                )


def table_of(
    layout: Mapping[str, Any], names: Sequence[str], how: Handling, *, untyped: bool = False
) -> Table:
    """Create the table that a layout describes."""
    kinds = layout.get("kinds") or [("number",)] * len(names)
    columns = [Column(*kind) for kind in kinds]
    return Table(names, columns, how, untyped=untyped, shape=layout.get("shape"))


def _numeric(column: Column) -> bool:
    return column.kind != "category"


def _list_values(name: str, value: Any, size: int) -> list[float]:
    found = [*leaves(value)]
    if not isinstance(value, list) or any(type(leaf) not in PLAIN for leaf in found):
        raise Malformed(f"{value!r:.40} in column {name!r} is not a list of numbers")
    if len(found) != size:
        raise Malformed(f"column {name!r} has {len(found)} numbers, not {size}")
    wide: list[float] = numbers(found).tolist()
    return wide
