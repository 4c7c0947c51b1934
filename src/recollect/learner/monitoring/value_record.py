"""Prequential errors for regression, and the metrics computed from them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import torch
from torch import Tensor

from recollect.errors import DataError
from recollect.learner.monitoring.metrics import Metrics

SUMS = ("scored", "mean", "spread", "squared", "absolute")


@final
@dataclass(frozen=True)
class ValueRecord:
    """Sums of squared and absolute errors `[D]`, and a ring buffer of the last ones.

    The `ring` is `[window, 2, D]`. `scored` `[1]` counts the examples that were predicted; `mean`
    and `spread` `[D]` are the mean of their values and the sum of squared deviations from it.
    """

    scored: np.ndarray
    mean: np.ndarray
    spread: np.ndarray
    squared: np.ndarray
    absolute: np.ndarray
    ring: np.ndarray
    seen: int = 0

    @classmethod
    def empty(cls, window: int) -> ValueRecord:
        """Return the record before the first prediction."""
        none = np.zeros(0)
        return cls(np.zeros(1), none, none, none, none, np.zeros((window, 2, 0)))

    def after(self, values: np.ndarray, predicted: np.ndarray) -> ValueRecord:
        """Return the record after values and predictions `[n, D]`; NaN means no prediction."""
        seen = self.seen + len(values)
        rows = np.isfinite(predicted).all(1)
        values, predicted = values[rows], predicted[rows]
        size = values.shape[1]
        sums = [getattr(self, n) if len(self.mean) else np.zeros(size) for n in SUMS[1:]]
        mean, spread, squared, absolute = sums
        ring = self.ring.copy() if len(self.mean) else np.zeros((len(self.ring), 2, size))
        before, count = float(self.scored[0]), len(values)
        if not count:
            return replace(self, seen=seen)
        total, error = before + count, predicted - values
        here = values.mean(0)
        spread = spread + np.square(values - here).sum(0)
        spread = spread + np.square(here - mean) * before * count / total
        mean = mean + (here - mean) * count / total
        errors = np.stack([np.square(error), np.abs(error)], 1)
        last = errors[-len(ring) :]
        ring[(int(total) - len(last) + np.arange(len(last))) % len(ring)] = last
        squared, absolute = squared + errors[:, 0].sum(0), absolute + errors[:, 1].sum(0)
        return ValueRecord(np.array([total]), mean, spread, squared, absolute, ring, seen)

    def metrics(self, known: tuple[Hashable, ...], left_out: int = 0, alarms: int = 0) -> Metrics:
        """Compute the metrics, averaged over the D values."""
        count = float(self.scored[0])
        if not count:
            return Metrics(self.seen, left_out=left_out, target="regression")
        filled = self.ring[: min(int(count), len(self.ring))]
        some = self.spread > 0
        with np.errstate(divide="ignore", invalid="ignore"):
            explained = np.where(some, 1 - self.squared / self.spread, self.squared <= 0)
        return Metrics(
            self.seen,
            mae=float(self.absolute.mean() / count),
            rmse=float(np.sqrt(self.squared / count).mean()),
            r2=float(explained.mean()) if count > 1 else None,
            recent_mae=float(filled[:, 1].mean()),
            recent_rmse=float(np.sqrt(filled[:, 0].mean(0)).mean()),
            left_out=left_out,
            target="regression",
        )

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors to save; `seen` is saved separately."""
        return {n: torch.from_numpy(getattr(self, n).copy()) for n in (*SUMS, "ring")}

    @classmethod
    def restored(cls, tensors: Mapping[str, Tensor], seen: int) -> ValueRecord:
        """Restore the record that was saved as `tensors` and `seen`."""
        parts = {name: tensors[name].numpy().copy() for name in (*SUMS, "ring")}
        size = parts["mean"].shape
        sound = parts["scored"].shape == (1,) and 0 <= parts["scored"][0] <= seen
        sound = sound and parts["ring"].ndim == 3 and parts["ring"].shape[1:] == (2, *size)
        if not sound or any(parts[n].shape != size for n in SUMS[1:]):
            raise DataError("the saved counts for the metrics are damaged")
        return cls(**parts, seen=seen)
