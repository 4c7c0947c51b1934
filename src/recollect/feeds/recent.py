"""The last values of every column, whose median takes the place of a missing one."""

from __future__ import annotations

import base64
from collections import deque
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from recollect.errors import DataError

__all__ = ["LAST", "Recent", "Window"]

LAST = 31  # the median of so many is robust, follows a drift, and is quickly saved


class Window(NamedTuple):
    """What `Recent` holds, which never changes: `[LAST, F]` values, and rows that came after."""

    values: NDArray[np.float32]
    rows: tuple[NDArray[np.float32], ...]


@final
class Recent:
    """The last 31 known values of every column; NaN where there were fewer.

    A whole row costs no more than a reference: it is sorted in when a value is missing. What comes
    out does not depend on when that happens, so a stream that was stopped continues exactly.

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
        """Count a row `[F]` in that has all its values."""
        self._rows.append(row)

    def filled(self, row: NDArray[np.float32]) -> NDArray[np.float32]:
        """The row `[F]` with medians for NaN (0 if a column has had no value); counts it in."""
        values, hole = self._sorted_in(), np.isnan(row)
        ranked = np.sort(values[:, hole], axis=0)  # NaN comes last
        count = (~np.isnan(ranked)).sum(0)
        # The lower one of two middle values: a value that the column had.
        middle = ranked[np.maximum(count - 1, 0) // 2, np.arange(ranked.shape[1])]
        whole = row.copy()
        whole[hole] = np.where(count > 0, middle, 0)
        self._values = np.where(hole, values, np.concatenate([values[1:], row[None]]))
        return whole

    def now(self) -> Window:
        """What is held at this moment."""
        return Window(self._values, tuple(self._rows))

    def _sorted_in(self) -> NDArray[np.float32]:
        if self._rows:
            self._values = merged(self._values, tuple(self._rows))
            self._rows.clear()
        return self._values

    def restore(self, text: object) -> None:
        """Hold what was saved as text."""
        try:
            data = base64.b64decode(str(text), validate=True)
            self._values = np.frombuffer(data, "<f4").reshape(self._values.shape).astype(np.float32)
        except ValueError:
            raise DataError("what was saved of earlier rows does not fit the columns") from None
        self._rows.clear()


def merged(
    values: NDArray[np.float32], rows: tuple[NDArray[np.float32], ...]
) -> NDArray[np.float32]:
    """The last values `[LAST, F]` once whole rows were added."""
    return np.concatenate([values, np.stack(rows)])[-LAST:] if rows else values


def as_text(window: Window) -> str:
    """A window as text, for a file."""
    whole = merged(*window).astype("<f4")
    return base64.b64encode(whole.tobytes()).decode()
