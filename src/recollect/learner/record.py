"""The prequential accuracy of a learner."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import final

import numpy as np
import torch
from torch import Tensor

from recollect.errors import DataError

__all__ = ["Metrics", "Record"]

TYPES = {"right": np.int64, "met": np.int64, "ring": np.uint8}


@final
@dataclass(frozen=True)
class Metrics:
    """Prequential accuracy: every example was predicted first and learned afterwards.

    `accuracy` is over all that was seen, `recent` over the last ones, `per_class` over all of a
    class; each is a share between 0 and 1, and None without examples. `left_out` counts the
    examples that could not be trusted: they were not learned, and are in no accuracy.

    >>> print(Metrics(seen=200, accuracy=0.9, recent=0.95, per_class={"up": 0.85, "down": 0.95}))
    200 examples, accuracy 90.00 %, recently 95.00 %
    """

    seen: int
    accuracy: float | None
    recent: float | None
    per_class: Mapping[Hashable, float | None]
    left_out: int = 0

    def __str__(self) -> str:
        overall, recent = (
            "-" if share is None else f"{100 * share:.2f} %"
            for share in (self.accuracy, self.recent)
        )
        left_out = f", {self.left_out} left out" if self.left_out else ""
        return f"{self.seen} examples, accuracy {overall}, recently {recent}{left_out}"


@final
@dataclass(frozen=True)
class Record:
    """Counts of examples and right predictions per class, and a ring of the last outcomes."""

    right: np.ndarray
    met: np.ndarray
    ring: np.ndarray
    seen: int = 0

    @classmethod
    def empty(cls, window: int) -> Record:
        """The record before the first prediction."""
        none = np.zeros(0, dtype=np.int64)
        return cls(none, none, np.zeros(window, dtype=np.uint8))

    def after(self, numbers: np.ndarray, right: np.ndarray) -> Record:
        """The record after a batch of labels, by number, and whether each was predicted."""
        classes = max(len(self.met), int(numbers.max()) + 1)
        ring, window = self.ring.copy(), len(self.ring)
        last = right[-window:]
        ring[(self.seen + len(right) - len(last) + np.arange(len(last))) % window] = last
        rights = np.bincount(numbers[right], minlength=classes)
        rights[: len(self.right)] += self.right
        met = np.bincount(numbers, minlength=classes)
        met[: len(self.met)] += self.met
        return Record(rights, met, ring, self.seen + len(right))

    def metrics(self, known: tuple[Hashable, ...], left_out: int = 0) -> Metrics:
        """The accuracies, with the known labels as the classes' names."""
        filled = min(self.seen, len(self.ring))
        each = zip_longest(known, self.right.tolist(), self.met.tolist(), fillvalue=0)
        return Metrics(
            self.seen,
            int(self.right.sum()) / self.seen if self.seen else None,
            int(self.ring[:filled].sum()) / filled if filled else None,
            {label: r / m if m else None for label, r, m in each},
            left_out,
        )

    def tensors(self) -> dict[str, Tensor]:
        """The tensors to save; `seen` is saved apart."""
        return {name: torch.from_numpy(getattr(self, name).copy()) for name in TYPES}

    @classmethod
    def restored(cls, tensors: Mapping[str, Tensor], seen: int) -> Record:
        """The record that was saved as `tensors` and `seen`."""
        parts = {name: tensors[name].numpy().copy() for name in TYPES}
        if any(part.dtype != TYPES[name] for name, part in parts.items()):
            raise DataError("the record of predictions is of another kind")
        return cls(**parts, seen=seen)
