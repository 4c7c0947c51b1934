"""What a learner's metrics are, and how they follow from counts per class."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

__all__ = ["Metrics", "cohen_kappa", "macro_f1", "mean_recall"]


@final
@dataclass(frozen=True)
class Metrics:
    """Prequential metrics: every example was predicted first and learned afterwards.

    `accuracy` is over all that was seen, `recent` over the last ones, `per_class` over all of a
    class and `recent_per_class` over those of a class among the last ones. `balanced` is the mean
    of the accuracies of the classes that occurred, `macro_f1` the mean F1 of the classes that
    occurred or were predicted, and `kappa` Cohen's kappa of labels and predictions, as scikit-learn
    defines them. An example for which there was no prediction counts as wrong: it lowers the recall
    of its class, and is in no class's predictions. Each is None without examples; `kappa` also
    while there is one class, which chance predicts as well.

    `left_out` counts the examples that could not be trusted: they were not learned, and are in no
    metric. `alarms` counts the drift alarms.

    >>> print(Metrics(seen=200, accuracy=0.9, recent=0.95, per_class={"up": 0.85, "down": 0.95}))
    200 examples, accuracy 90.00 %, recently 95.00 %
    """

    seen: int
    accuracy: float | None
    recent: float | None
    per_class: Mapping[Hashable, float | None]
    left_out: int = 0
    balanced: float | None = None
    macro_f1: float | None = None
    kappa: float | None = None
    recent_per_class: Mapping[Hashable, float | None] = field(default_factory=dict)
    alarms: int = 0

    def __str__(self) -> str:
        overall, recent = (
            "-" if share is None else f"{100 * share:.2f} %"
            for share in (self.accuracy, self.recent)
        )
        left_out = f", {self.left_out} left out" if self.left_out else ""
        alarms = f", {self.alarms} drift alarm{'s' * (self.alarms > 1)}" if self.alarms else ""
        return f"{self.seen} examples, accuracy {overall}, recently {recent}{left_out}{alarms}"

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain data: numbers by name, and a list with a dict for every class.

        >>> found = Metrics(200, 0.9, 0.95, {"up": 0.85}, recent_per_class={"up": 0.8}).as_dict()
        >>> found["accuracy"], found["classes"]
        (0.9, [{'class': 'up', 'accuracy': 0.85, 'recent': 0.8}])
        """
        names = (
            "seen", "left_out", "accuracy", "recent", "balanced", "macro_f1", "kappa", "alarms",
        )  # fmt: skip
        classes = [
            {"class": label, "accuracy": share, "recent": self.recent_per_class.get(label)}
            for label, share in self.per_class.items()
        ]
        return {**{name: getattr(self, name) for name in names}, "classes": classes}


def mean_recall(right: np.ndarray, met: np.ndarray) -> float | None:
    """The mean over classes that occurred of the share that was right, from counts `[classes]`.

    >>> mean_recall(np.array([9, 1, 0]), np.array([10, 2, 0]))
    0.7
    """
    there = met > 0
    return float((right[there] / met[there]).mean()) if there.any() else None


def macro_f1(right: np.ndarray, met: np.ndarray, predicted: np.ndarray) -> float | None:
    """The mean F1 of the classes that occurred or were predicted, from counts `[classes]`.

    >>> macro_f1(np.array([4, 0]), np.array([4, 4]), np.array([8, 0]))
    0.3333333333333333
    """
    right, met, predicted = _of_one_length(right, met, predicted)
    both = met + predicted
    there = both > 0
    return float((2 * right[there] / both[there]).mean()) if there.any() else None


def cohen_kappa(right: np.ndarray, met: np.ndarray, predicted: np.ndarray) -> float | None:
    """How much better than chance predictions agree with labels, from counts `[classes]`.

    >>> cohen_kappa(np.array([4, 0]), np.array([4, 4]), np.array([8, 0]))
    0.0
    """
    right, met, predicted = _of_one_length(right, met, predicted)
    seen = int(met.sum())
    if not seen:
        return None
    # In Python's whole numbers: a product of two counts may not fit 64 bits.
    by_chance = sum(m * p for m, p in zip(met.tolist(), predicted.tolist(), strict=True))
    if by_chance == seen * seen:
        return None
    return float((int(right.sum()) * seen - by_chance) / (seen * seen - by_chance))


def _of_one_length(*counts: np.ndarray) -> list[np.ndarray]:
    length = max(len(each) for each in counts)
    return [np.pad(each, (0, length - len(each))) for each in counts]
