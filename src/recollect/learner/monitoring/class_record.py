"""Prequential counts for classification, and the metrics computed from them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from recollect.errors import DataError
from recollect.learner.monitoring.metrics import Metrics, cohen_kappa, macro_f1, mean_recall

TYPES = {"right": np.int64, "met": np.int64, "ring": np.uint8}
TOGETHER = 32
# Files of older versions do not have these.
LATER = {"labels": np.int32, "predicted": np.int64, "uncounted": np.int64}


class Record(NamedTuple):
    """Counts of labels and predictions per class, and a ring buffer of the last outcomes.

    `met` and `right` `[classes]` count the examples and the correct predictions of each class. An
    outcome in `ring` is `2 * class index + right`; -2 and -1 are outcomes of unknown classes, from
    an older file. `predicted` `[1 + classes]` counts the examples without a prediction, and then
    the predictions of each class. `uncounted` `[2, classes]` is `right` and `met` of examples that
    an older version learned without counting predictions.

    The labels and predictions of up to `TOGETHER` batches are `waiting`, to be counted at once;
    `counted` has them in its counts.
    """

    right: np.ndarray
    met: np.ndarray
    ring: np.ndarray
    predicted: np.ndarray
    uncounted: np.ndarray
    seen: int = 0
    waiting: tuple[tuple[np.ndarray, np.ndarray], ...] = ()

    @classmethod
    def empty(cls, window: int) -> Record:
        """Return the record before the first prediction."""
        none, ring = np.zeros(0, dtype=np.int64), np.zeros(window, dtype=np.int32)
        return cls(none, none, ring, np.zeros(1, np.int64), np.zeros((2, 0), np.int64))

    def after(self, numbers: np.ndarray, guessed: np.ndarray) -> Record:
        """Return the record after labels `[n]` and predictions `[n]` (-1: none), as indices."""
        seen, waiting = self.seen + len(numbers), (*self.waiting, (numbers, guessed))
        parts = self.right, self.met, self.ring, self.predicted, self.uncounted
        found = Record(*parts, seen, waiting)
        return found if len(waiting) < TOGETHER else found.counted()

    def counted(self) -> Record:
        """Return the record with all labels and predictions counted."""
        if not self.waiting:
            return self
        numbers, guessed = map(np.concatenate, zip(*self.waiting, strict=True))
        hits = numbers == guessed
        met = np.bincount(numbers, minlength=len(self.met))
        met[: len(self.met)] += self.met
        right = np.bincount(numbers[hits], minlength=len(met))
        right[: len(self.right)] += self.right
        predicted = np.bincount(guessed + 1, minlength=len(self.predicted))
        predicted[: len(self.predicted)] += self.predicted
        ring, window = self.ring.copy(), len(self.ring)
        last = (2 * numbers + hits)[-window:]
        start, end = (self.seen - len(last)) % window, (self.seen - 1) % window + 1
        if start < end:
            ring[start:end] = last
        else:
            ring[start:], ring[:end] = last[: window - start], last[window - start :]
        return Record(right, met, ring, predicted, self.uncounted, self.seen)

    def metrics(self, known: tuple[Hashable, ...], left_out: int = 0, alarms: int = 0) -> Metrics:
        """Compute the metrics; `known` has the labels of the classes."""
        if self.waiting:
            return self.counted().metrics(known, left_out, alarms)
        ring = self.ring[: min(self.seen, len(self.ring))]
        of_known = ring[ring >= 0]
        recent = np.bincount(of_known >> 1, minlength=len(known))
        recent_right = np.bincount(of_known[of_known & 1 == 1] >> 1, minlength=len(known))
        right, met = self.right.copy(), self.met.copy()
        without = self.uncounted.shape[1]
        right[:without] -= self.uncounted[0]
        met[:without] -= self.uncounted[1]
        return Metrics(
            self.seen,
            int(self.right.sum()) / self.seen if self.seen else None,
            int((ring & 1).sum()) / len(ring) if len(ring) else None,
            _shares(known, self.right, self.met),
            left_out,
            mean_recall(self.right, self.met),
            macro_f1(right, met, self.predicted[1:]),
            cohen_kappa(right, met, self.predicted[1:]),
            _shares(known, recent_right, recent),
            alarms,
        )

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors to save; `seen` is saved separately."""
        if self.waiting:
            return self.counted().tensors()
        parts = {
            "right": self.right, "met": self.met, "ring": (self.ring & 1).astype(np.uint8),
            "labels": self.ring >> 1, "predicted": self.predicted, "uncounted": self.uncounted,
        }  # fmt: skip
        return {name: torch.from_numpy(part.copy()) for name, part in parts.items()}

    @classmethod
    def restored(cls, tensors: Mapping[str, Tensor], seen: int) -> Record:
        """Restore the record that was saved as `tensors` and `seen`."""
        types = TYPES | LATER
        parts = {name: tensors[name].numpy().copy() for name in types if name in tensors}
        right, met = parts["right"], parts["met"]
        if not LATER.keys() & parts.keys():  # from a file of an older version
            labels = np.full(len(parts["ring"]), -1, dtype=np.int32)
            parts |= {"labels": labels, "predicted": np.zeros(1, np.int64)}
            parts["uncounted"] = np.stack([right, met])
        labels, predicted, uncounted = parts["labels"], parts["predicted"], parts["uncounted"]
        sound = (
            all(part.dtype == types[name] for name, part in parts.items())
            and labels.shape == parts["ring"].shape
            and bool(((labels >= -1) & (labels < max(len(met), 1))).all())
            and bool((parts["ring"] <= 1).all())
            and predicted.ndim == 1
            and len(predicted) >= 1
            and uncounted.ndim == 2
            and len(uncounted) == 2
            and uncounted.shape[1] <= len(met)
            and all(bool((part >= 0).all()) for part in (right, met, predicted, uncounted))
        )
        if not sound:
            raise DataError("the saved counts for the metrics are damaged")
        ring = (2 * labels + parts["ring"]).astype(np.int32)
        return cls(right, met, ring, predicted, uncounted, seen)


def _shares(
    known: tuple[Hashable, ...], right: np.ndarray, met: np.ndarray
) -> dict[Hashable, float | None]:
    each = zip_longest(known, right.tolist(), met.tolist(), fillvalue=0)
    return {label: r / m if m else None for label, r, m in each}
