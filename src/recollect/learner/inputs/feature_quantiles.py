"""Per-feature outlier bounds from two running quantiles of the magnitudes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

FACTOR, TAIL, MOST = 50.0, 10.0, 1e4  # how far beyond the usual range a value is plausible
WIDE = 10.0  # WIDE ** TAIL is above MOST, and does not overflow
ABOVE = 1 - np.array([[0.9], [0.97]])  # shares of the values above the two quantiles
FIRST, STEP = 5.0, 0.05  # a value moves the logarithm of a quantile by the larger of 5 / n and this
SETTLED, EVERY = 1000, 20  # after SETTLED examples, update the quantiles every EVERY examples
ENOUGH = 300  # non-zero values that a column needs before it has a bound
# An outlier weighs as much as WEIGHT other values: anything rarer is a glitch. The balance never
# falls below zero; when it reaches that of 20 outliers, such values are considered usual.
WEIGHT, PERSISTENT = 30, 20 * 30


@final
@dataclass(frozen=True)
class Columns:
    """Running 90 % and 97 % quantiles of the magnitudes in every column, `[F]` each.

    Zeros are not counted, so a column that is zero for thousands of examples has no scale before
    its first non-zero values. A value moves a quantile by a fixed step, whatever its size.
    """

    quantiles: np.ndarray  # the 90 % and the 97 % quantiles, `[2, F]`
    count: np.ndarray
    balance: np.ndarray
    bound: np.ndarray
    examples: int = 0
    moved: int = 0  # number of examples at the last update of the quantiles
    least: float = math.inf  # the smallest bound

    @classmethod
    def empty(cls, features: int) -> Columns:
        """Create the quantiles before the first example."""
        zero = np.zeros(features)
        return cls(np.zeros((2, features)), zero, zero, np.full(features, np.inf))

    def sized(self, features: int) -> Columns:
        """Return these quantiles, or new ones if the number of features is another."""
        return self if len(self.count) == features else Columns.empty(features)

    @property
    def lower(self) -> np.ndarray:
        """The 90 % quantiles, `[F]`."""
        found: np.ndarray = self.quantiles[0]
        return found

    @property
    def high(self) -> np.ndarray:
        """The 97 % quantiles, `[F]`."""
        found: np.ndarray = self.quantiles[1]
        return found

    def after(
        self, cells: np.ndarray, top: float, far: np.ndarray | None, renew: bool
    ) -> tuple[Columns, np.ndarray | None]:
        """Update with magnitudes `[n, F]`; also return which are outliers, or None if none are.

        Args:
            cells: The magnitudes.
            top: The largest of them.
            far: Rows that are outliers as a whole, `[n]`; they do not move the quantiles.
            renew: Whether to recompute the bounds.
        """
        now = self.sized(cells.shape[1])
        some = top > now.least and bool((cells.max(0) > now.bound).any())
        odd = None
        if some or np.count_nonzero(now.balance):
            odd = cells > now.bound
            now = now._weighed(_counted(odd), _counted(cells > 0))
            odd &= cells > now.bound
        examples = now.examples + len(cells)
        if renew or examples < SETTLED or examples >= now.moved + EVERY:
            now = now._moved(cells if far is None else cells[~far], renew, examples)
        else:
            parts = now.quantiles, now.count, now.balance, now.bound
            now = Columns(*parts, examples, now.moved, now.least)
        return now, odd if some else None

    def _weighed(self, odd: np.ndarray, size: np.ndarray) -> Columns:
        """Update the balance with `odd` outliers among `size` non-zero values, both `[F]`."""
        balance = (self.balance + (WEIGHT + 1) * odd - size).clip(0)
        usual = balance >= PERSISTENT
        bound = np.where(usual, np.inf, self.bound)
        return replace(
            self,
            balance=np.where(usual, 0, balance),
            count=np.where(usual, 0, self.count),
            bound=bound,
            least=smallest(bound),
        )

    def _moved(self, cells: np.ndarray, renew: bool, examples: int) -> Columns:
        """Update the quantiles with magnitudes `[n, F]`."""
        quantiles = self.quantiles
        dense = cells.min(initial=np.inf) > 0
        size: Any = len(cells) if dense else _counted(cells > 0)  # or one for every column, `[F]`
        fewest = self.count.min(initial=np.inf)
        if not fewest and (first := (self.count == 0) & (size > 0)).any():
            some = cells[:, first].astype(np.float64)  # the sum of two values cannot overflow
            quantiles = quantiles.copy()
            quantiles[:, first] = np.nanmedian(np.where(some > 0, some, np.nan), axis=0)
        count = self.count + size
        early = not fewest or (fewest + size if dense else count.min()) * STEP < FIRST
        step = np.maximum(FIRST / np.maximum(count, 1), STEP) if early else STEP
        # A large batch moves the quantiles by at most one step.
        step = np.minimum(step, 1 / np.maximum(size, 1))
        above = _counted(cells > _rounded_down(quantiles)[:, None])
        quantiles = quantiles * np.exp(step * (above - ABOVE * size))
        bound, least = self.bound, self.least
        if renew:
            lower, high = quantiles
            known = count >= ENOUGH
            spread = high / np.where(known, np.minimum(lower, high), 1.0)
            early = np.maximum(SETTLED / np.maximum(count, 1), 1) ** 2
            bound = np.where(known, high * factor(spread) * early, np.inf)
            least = smallest(bound)
        return Columns(quantiles, count, self.balance, bound, examples, examples, least)


def _counted(which: np.ndarray) -> np.ndarray:
    """Count the true elements of `[..., n, F]` in every column, `[..., F]`."""
    # Bytes are added much faster.
    few = which.shape[-2] < 256
    found: np.ndarray = which.view(np.uint8).sum(-2, dtype=np.uint8 if few else np.int64)
    return found.astype(np.int64)


def _rounded_down(values: np.ndarray) -> np.ndarray:
    """Round values of at least 0 to float32, downwards.

    A number in float32 is above the result if it is above the value.
    """
    found = values.astype(np.float32)
    lower = found.view(np.int32) - (found > values)  # the bits of the next smaller number
    return lower.astype(np.int32, copy=False).view(np.float32)


def smallest(bounds: np.ndarray) -> float:
    """Return the smallest of the bounds `[F]`; infinity if there are none."""
    return float(bounds.min(initial=np.inf))


def factor(spread: Any) -> Any:
    """Return the multiple of the high quantile that is plausible; `spread` is high / lower."""
    return np.clip(np.minimum(spread, WIDE) ** TAIL, FACTOR, MOST)
