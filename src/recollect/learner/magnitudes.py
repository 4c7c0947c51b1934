"""The magnitudes of the recent examples of a stream, and which ones they make plausible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from recollect.learner.columns import factor

__all__ = ["RECENT", "Magnitudes"]

RECENT, SHORT = 1000, 40  # how many are stored, and how many of them decide on a change
FEW, SHARE = 6, 0.027  # what so many, and this share, of the recent examples have is usual
HALF_LIFE = 1000.0  # examples after which half of a bound that is no longer needed has faded
WARM, EVERY = 200, 50  # examples until the bound is settled, and after which it is renewed


@final
@dataclass(frozen=True)
class Magnitudes:
    """The largest absolute values of the last examples, a ring `[RECENT]`, and a bound.

    The bound is `factor` times what all but a few of these examples have, and at least as much
    as half of the last `SHORT` examples need. The largest few do not count, whatever their size.
    """

    recent: np.ndarray
    counted: int = 0  # examples of zeros say nothing, and are not counted
    fresh: int = 0  # how many had been counted when the bound was renewed
    bound: float = 0.0

    @classmethod
    def empty(cls) -> Magnitudes:
        """Those of no examples."""
        return cls(np.zeros(RECENT, np.float32))

    @property
    def renewed(self) -> bool:
        """Whether the bound is of the latest example."""
        return self.fresh == self.counted

    def after(self, sizes: np.ndarray) -> Magnitudes:
        """Those after examples of magnitudes `[n]`, all of them finite."""
        some = sizes[sizes > 0]
        if not len(some):
            return self
        counted = self.counted + len(some)
        last = some[-RECENT:]
        recent = self.recent.copy()
        recent[np.arange(counted - len(last), counted) % RECENT] = last
        age = counted - self.fresh
        if self.counted > WARM and age < EVERY and some.max() <= self.bound:
            return Magnitudes(recent, counted, self.fresh, self.bound)
        faded = self.bound * 0.5 ** (age / HALF_LIFE) if counted > WARM else 0.0
        return Magnitudes(recent, counted, counted, max(_plausible(recent, counted), faded))


def _plausible(recent: np.ndarray, counted: int) -> float:
    """The largest magnitude that the recent ones make plausible."""
    filled = min(counted, RECENT)
    few, half = int(FEW + SHARE * filled), filled // 2 + 1
    places = filled - min(3 * few, half), filled - min(few, half)
    ordered = np.partition(recent[:filled], places)
    middle, high = float(ordered[places[0]]), float(ordered[places[1]])
    bound = high * max(1.0, WARM / filled) * float(factor(high / middle))
    if filled >= SHORT:
        newest = recent[np.arange(counted - SHORT, counted) % RECENT]
        bound = max(bound, float(np.partition(newest, SHORT // 2)[SHORT // 2]) * float(factor(1.0)))
    return bound
