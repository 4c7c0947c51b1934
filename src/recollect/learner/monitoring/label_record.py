"""Prequential counts for multi-label classification, and the metrics computed from them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor

from recollect.errors import DataError
from recollect.learner.monitoring.metrics import Metrics

BINS = 100
COUNTS = ("right", "said", "met", "bins", "pairs", "ring")


@final
@dataclass(frozen=True)
class LabelRecord:
    """Counts per label: `right` (true positives), `said` (predicted), `met` (present), and others.

    `bins` `[C, 2, 100]` count the examples without and with a label by its predicted probability.
    `pairs` `[2]` are the number of wrong pairs of example and label, and of all pairs. `ring`
    `[window, 2]` has the true positives, and the predicted plus present labels, of each of the last
    examples.
    """

    right: np.ndarray
    said: np.ndarray
    met: np.ndarray
    bins: np.ndarray
    pairs: np.ndarray
    ring: np.ndarray
    seen: int = 0

    @classmethod
    def empty(cls, window: int) -> LabelRecord:
        """Return the record before the first prediction."""
        none = np.zeros(0, dtype=np.int64)
        bins, pairs = np.zeros((0, 2, BINS), dtype=np.int64), np.zeros(2, dtype=np.int64)
        return cls(none, none, none, bins, pairs, np.zeros((window, 2), dtype=np.int64))

    def after(
        self, has: np.ndarray, said: np.ndarray, shares: np.ndarray | None = None
    ) -> LabelRecord:
        """Return the record after labels and predictions `[n, C]` (bool).

        The predicted probabilities `shares` `[n, c]` only cover the labels that were known before.
        """
        count, labels = has.shape
        right = has & said
        rights, saids, met = (
            new.sum(0) + _padded(old, labels)
            for new, old in ((right, self.right), (said, self.said), (has, self.met))
        )
        bins = np.zeros((labels, 2, BINS), dtype=np.int64)
        bins[: len(self.bins)] = self.bins
        for label in range(0 if shares is None else shares.shape[1]):
            assert shares is not None
            place = (shares[:, label] * BINS).astype(np.int64).clip(0, BINS - 1)
            np.add.at(bins[label], (has[:, label].astype(np.int64), place), 1)
        pairs = self.pairs + np.array([int((has != said).sum()), has.size])
        ring = self.ring.copy()
        rows = np.stack([right.sum(1), said.sum(1) + has.sum(1)], 1)[-len(ring) :]
        ring[(self.seen + count - len(rows) + np.arange(len(rows))) % len(ring)] = rows
        return LabelRecord(rights, saids, met, bins, pairs, ring, self.seen + count)

    def metrics(self, known: tuple[Hashable, ...], left_out: int = 0, alarms: int = 0) -> Metrics:
        """Compute the metrics; `known` has the names of the labels."""
        filled = self.ring[: min(self.seen, len(self.ring))]
        each = [_f1(r, s + m) for r, s, m in zip(self.right, self.said, self.met, strict=True)]
        some = [f1 for f1 in each if f1 is not None]
        names = [*each, *[None] * (len(known) - len(each))]
        return Metrics(
            self.seen,
            f1=_f1(self.right.sum(), self.said.sum() + self.met.sum()),
            macro_f1=float(np.mean(some)) if some else None,
            hamming=float(self.pairs[0] / self.pairs[1]) if self.pairs[1] else None,
            average_precision=_average_precision(self.bins),
            recent_f1=_f1(*filled.sum(0)) if len(filled) else None,
            per_label=dict(zip(known, names, strict=True)),
            left_out=left_out,
            target="labels",
        )

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors to save; `seen` is saved separately."""
        return {n: torch.from_numpy(getattr(self, n).copy()) for n in COUNTS}

    @classmethod
    def restored(cls, tensors: Mapping[str, Tensor], seen: int) -> LabelRecord:
        """Restore the record that was saved as `tensors` and `seen`."""
        parts = {name: tensors[name].numpy().copy() for name in COUNTS}
        size = parts["met"].shape
        sound = (
            all(part.dtype == np.int64 and bool((part >= 0).all()) for part in parts.values())
            and parts["right"].shape == parts["said"].shape == size and len(size) == 1
            and parts["bins"].shape == (*size, 2, BINS) and parts["pairs"].shape == (2,)
            and parts["ring"].ndim == 2 and parts["ring"].shape[1] == 2
        )  # fmt: skip
        if not sound:
            raise DataError("the saved counts for the metrics are damaged")
        return cls(**parts, seen=seen)


def _f1(right: int, sum_: int) -> float | None:
    return float(2 * right / sum_) if sum_ else None


def _average_precision(bins: np.ndarray) -> float | None:
    """Return the mean over labels that occurred; examples in the same bin count as tied."""
    without, present = bins[:, 0, ::-1], bins[:, 1, ::-1]
    total = present.sum(1)
    above = present.cumsum(1)
    precision = above / np.maximum(above + without.cumsum(1), 1)
    each = (precision * present).sum(1) / np.maximum(total, 1)
    return float(each[total > 0].mean()) if (total > 0).any() else None


def _padded(counts: np.ndarray, size: int) -> np.ndarray:
    found = np.zeros(size, dtype=np.int64)
    found[: len(counts)] = counts
    return found
