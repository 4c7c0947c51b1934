"""Impute missing numbers with the median of a column's recent values."""

from __future__ import annotations

import base64
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recollect.errors import DataError

LAST = 31  # enough for a robust median, few enough to follow drift and to save quickly


class Recent(NamedTuple):
    """The last 31 known values of every column, immutable: `values` `[LAST, F]`, and later `rows`.

    `values` has NaN where there were fewer. Complete rows are only referenced, and merged into
    `values` when a value is missing. The result does not depend on when that happens, so a resumed
    stream continues exactly.

    >>> recent = Recent.of(2)
    >>> for value in (1, 2, 900):
    ...     recent = recent.with_row(np.array([value, 5], np.float32))
    >>> recent.filled(np.array([np.nan, 7], np.float32))[0]
    array([2., 7.], dtype=float32)
    """

    values: NDArray[np.float32]
    rows: tuple[NDArray[np.float32], ...] = ()

    @classmethod
    def of(cls, columns: int) -> Recent:
        """Return the state before the first row."""
        return cls(np.full((LAST, columns), np.nan, np.float32))

    def with_row(self, row: NDArray[np.float32]) -> Recent:
        """Return the state after a row `[F]` without missing values."""
        return Recent(self.values, (*self.rows, row)[-LAST:])

    def filled(self, row: NDArray[np.float32]) -> tuple[NDArray[np.float32], Recent]:
        """Return a row `[F]` with NaN replaced by medians (0 without values), and the new state."""
        values, hole = self._merged(), np.isnan(row)
        ranked = np.sort(values[:, hole], axis=0)  # NaN is sorted to the end
        count = (~np.isnan(ranked)).sum(0)
        # The lower of two middle values, so that it is one that occurred in the column.
        middle = ranked[np.maximum(count - 1, 0) // 2, np.arange(ranked.shape[1])]
        whole = row.copy()
        whole[hole] = np.where(count > 0, middle, 0)
        return whole, Recent(np.where(hole, values, np.concatenate([values[1:], row[None]])))

    def saved(self) -> str:
        """Encode the state as text, for a file."""
        return base64.b64encode(self._merged().astype("<f4").tobytes()).decode()

    def restored(self, text: object) -> Recent:
        """Return the state that `saved` encoded, for the same columns."""
        try:
            data = base64.b64decode(str(text), validate=True)
            return Recent(np.frombuffer(data, "<f4").reshape(self.values.shape).astype(np.float32))
        except ValueError:
            raise DataError(
                "the saved recent values, used to impute missing ones, do not match the columns"
            ) from None

    def _merged(self) -> NDArray[np.float32]:
        return (
            np.concatenate([self.values, np.stack(self.rows)])[-LAST:] if self.rows else self.values
        )
