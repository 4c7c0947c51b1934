"""Impute missing numbers with the median of a column's recent values."""

from __future__ import annotations

import base64
from collections import deque
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from recollect.errors import DataError

__all__ = ["LAST", "Recent", "Window"]

LAST = 31  # enough for a robust median, few enough to follow drift and to save quickly


class Window(NamedTuple):
    """An immutable snapshot of `Recent`: values `[LAST, F]`, and the rows added after them."""

    values: NDArray[np.float32]
    rows: tuple[NDArray[np.float32], ...]


@final
class Recent:
    """Store the last 31 known values of every column; NaN where there were fewer.

    Adding a complete row only stores a reference; rows are merged when a value is missing. The
    result does not depend on when that happens, so a resumed stream continues exactly.

    >>> recent = Recent(2)
    >>> for value in (1, 2, 900):
    ...     recent.add(np.array([value, 5], np.float32))
    >>> recent.filled(np.array([np.nan, 7], np.float32))
    array([2., 7.], dtype=float32)
    """

    def __init__(self, columns: int) -> None:
        self._values = np.full((LAST, columns), np.nan, np.float32)
        self._rows: deque[NDArray[np.float32]] = deque(maxlen=LAST)

    def add(self, row: NDArray[np.float32]) -> None:
        """Add a row `[F]` without missing values."""
        self._rows.append(row)

    def filled(self, row: NDArray[np.float32]) -> NDArray[np.float32]:
        """Add a row `[F]` and return it with NaN replaced by medians, or by 0 without any value."""
        values, hole = self._merge_rows(), np.isnan(row)
        ranked = np.sort(values[:, hole], axis=0)  # NaN is sorted to the end
        count = (~np.isnan(ranked)).sum(0)
        # The lower of two middle values, so that it is one that occurred in the column.
        middle = ranked[np.maximum(count - 1, 0) // 2, np.arange(ranked.shape[1])]
        whole = row.copy()
        whole[hole] = np.where(count > 0, middle, 0)
        self._values = np.where(hole, values, np.concatenate([values[1:], row[None]]))
        return whole

    def now(self) -> Window:
        """Return a snapshot."""
        return Window(self._values, tuple(self._rows))

    def _merge_rows(self) -> NDArray[np.float32]:
        if self._rows:
            self._values = merged(self._values, tuple(self._rows))
            self._rows.clear()
        return self._values

    def restore(self, text: object) -> None:
        """Restore the values that `as_text` encoded."""
        try:
            data = base64.b64decode(str(text), validate=True)
            self._values = np.frombuffer(data, "<f4").reshape(self._values.shape).astype(np.float32)
        except ValueError:
            raise DataError(
                "the saved recent values, used to impute missing ones, do not match the columns"
            ) from None
        self._rows.clear()


def merged(
    values: NDArray[np.float32], rows: tuple[NDArray[np.float32], ...]
) -> NDArray[np.float32]:
    """Return the last values `[LAST, F]` after complete rows are added."""
    return np.concatenate([values, np.stack(rows)])[-LAST:] if rows else values


def as_text(window: Window) -> str:
    """Encode a window as text, for a file."""
    whole = merged(*window).astype("<f4")
    return base64.b64encode(whole.tobytes()).decode()
