"""The magnitudes that every feature of a stream has: two running quantiles of each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

__all__ = ["FACTOR", "Columns", "factor"]

FACTOR, TAIL, MOST = 50.0, 10.0, 1e4  # how far beyond what is usual is plausible
LOWER, HIGH = 0.9, 0.97
FIRST, STEP = 5.0, 0.05  # a value moves the logarithm of a quantile by the larger of 5 / n and this
SETTLED, EVERY = 1000, 20  # examples after which quantiles move with fewer batches, and how many
ENOUGH = 300  # values that are not zero before a column is compared with itself
# One value that is far outside weighs as much as so many others: what is rarer is a glitch. Their
# balance is never below zero, and when it is that of 20 values far outside, they are usual.
WEIGHT, PERSISTENT = 30, 20 * 30


@final
@dataclass(frozen=True)
class Columns:
    """The 90 % and the 97 % quantile of the magnitudes in every column, `[F]` each.

    Zeros are not counted, so a column that is zero for thousands of examples has no scale until
    it has shown one. A value moves a quantile by a step, whatever its size.
    """

    lower: np.ndarray
    high: np.ndarray
    count: np.ndarray
    balance: np.ndarray
    bound: np.ndarray
    examples: int = 0
    moved: int = 0  # how many examples there were when the quantiles moved

    @classmethod
    def empty(cls, features: int) -> Columns:
        """Columns that have shown nothing."""
        zero = np.zeros(features)
        return cls(zero, zero, zero, zero, np.full(features, np.inf))

    def after(
        self, cells: np.ndarray, far: np.ndarray, renew: bool
    ) -> tuple[Columns, np.ndarray | None]:
        """The columns after magnitudes `[n, F]`, and which of them are far outside, if any.

        Rows that are `far` outside as a whole do not move the quantiles. With `renew`, the bounds
        are computed anew.
        """
        now = self if len(self.count) == cells.shape[1] else Columns.empty(cells.shape[1])
        odd: np.ndarray = cells > now.bound
        some = bool(odd.any())
        if some or now.balance.any():
            now = now._weighed(_counted(odd), _counted(cells > 0))
            odd &= cells > now.bound
        examples = now.examples + len(cells)
        if renew or examples < SETTLED or examples >= now.moved + EVERY:
            now = now._moved(cells[~far] if far.any() else cells, renew, examples)
        else:
            now = replace(now, examples=examples)
        return now, odd if some else None

    def _weighed(self, odd: np.ndarray, size: np.ndarray) -> Columns:
        """With `odd` values far outside, of `size` that are not zero: both `[F]`."""
        balance = (self.balance + (WEIGHT + 1) * odd - size).clip(0)
        usual = balance >= PERSISTENT
        return replace(
            self,
            balance=np.where(usual, 0, balance),
            count=np.where(usual, 0, self.count),
            bound=np.where(usual, np.inf, self.bound),
        )

    def _moved(self, cells: np.ndarray, renew: bool, examples: int) -> Columns:
        """With quantiles that count these magnitudes `[n, F]` in."""
        lower, high, size = self.lower, self.high, _counted(cells > 0)
        first = (self.count == 0) & (size > 0)
        if first.any():
            some = cells[:, first]
            lower, high = lower.copy(), high.copy()
            lower[first] = high[first] = np.nanmedian(np.where(some > 0, some, np.nan), axis=0)
        count, least = self.count + size, np.maximum(size, 1)
        # Not more than one step's worth of a batch, however large it is.
        step = np.minimum(np.maximum(FIRST / np.maximum(count, 1), STEP), 1 / least)
        lower = lower * np.exp(step * (_counted(cells > lower) - (1 - LOWER) * size))
        high = high * np.exp(step * (_counted(cells > high) - (1 - HIGH) * size))
        bound = self.bound
        if renew:
            known = count >= ENOUGH
            spread = high / np.where(known, np.minimum(lower, high), 1.0)
            early = np.maximum(SETTLED / np.maximum(count, 1), 1) ** 2
            bound = np.where(known, high * factor(spread) * early, np.inf)
        return Columns(lower, high, count, self.balance, bound, examples, examples)


def _counted(which: np.ndarray) -> np.ndarray:
    """How many of `[n, F]` are true in every column; bytes are added much faster."""
    few = len(which) < 256
    found: np.ndarray = which.view(np.uint8).sum(0, dtype=np.uint8 if few else np.int64)
    return found.astype(np.int64)


def factor(spread: Any) -> Any:
    """How many times the high quantile is plausible, if that is `spread` times the lower one."""
    with np.errstate(over="ignore"):
        return np.clip(spread**TAIL, FACTOR, MOST)
