"""A bound for the magnitude of an example, from the magnitudes of recent examples."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from recollect.learner.inputs.feature_quantiles import FACTOR, factor

RECENT, SHORT = 1000, 40  # magnitudes stored, and how many of the latest decide on a change
FEW, SHARE = 6, 0.027  # the FEW + SHARE * n largest of n recent magnitudes are ignored
HALF_LIFE = 1000.0  # examples after which a bound that is no longer needed has decayed by half
WARM, EVERY = 200, 50  # examples until the bound is settled, and between its updates


class Magnitudes(NamedTuple):
    """The largest absolute values of recent examples, a ring buffer `[RECENT]`, and a bound.

    The bound is `factor` times a high quantile of these magnitudes, and large enough for at least
    half of the last `SHORT` examples. The few largest do not count, whatever their size.
    """

    recent: np.ndarray
    counted: int = 0  # examples, without those that are all zeros
    fresh: int = 0  # `counted` at the last update of the bound
    bound: float = 0.0

    @classmethod
    def empty(cls) -> Magnitudes:
        """Create the statistics before the first example."""
        return cls(np.zeros(RECENT, np.float32))

    @property
    def renewed(self) -> bool:
        """Whether the latest update renewed the bound."""
        return self.fresh == self.counted

    def after(self, sizes: np.ndarray, top: float) -> Magnitudes:
        """Update with finite magnitudes `[n]`, of which `top` is the largest."""
        some = sizes if np.count_nonzero(sizes) == len(sizes) else sizes[sizes > 0]
        if not len(some):
            return self
        counted = self.counted + len(some)
        last, recent = some[-RECENT:], self.recent.copy()
        end = (counted - 1) % RECENT + 1
        first = end - len(last)
        recent[max(first, 0) : end] = last[max(-first, 0) :]
        if first < 0:  # wrap around: the earlier ones are at the end of the ring
            recent[first:] = last[:-first]
        age = counted - self.fresh
        if self.counted > WARM and age < EVERY and top <= self.bound:
            return Magnitudes(recent, counted, self.fresh, self.bound)
        faded = self.bound * 0.5 ** (age / HALF_LIFE) if counted > WARM else 0.0
        return Magnitudes(recent, counted, counted, max(_plausible(recent, counted), faded))


def _plausible(recent: np.ndarray, counted: int) -> float:
    """Compute the largest plausible magnitude from the recent ones."""
    filled = min(counted, RECENT)
    few, half = int(FEW + SHARE * filled), filled // 2 + 1
    places = filled - min(3 * few, half), filled - min(few, half)
    ordered = np.partition(recent[:filled], places)
    middle, high = float(ordered[places[0]]), float(ordered[places[1]])
    bound = high * max(1.0, WARM / filled) * float(factor(high / middle))
    if filled >= SHORT:
        newest = recent[np.arange(counted - SHORT, counted) % RECENT]
        bound = max(bound, float(np.partition(newest, SHORT // 2)[SHORT // 2]) * FACTOR)
    return bound
