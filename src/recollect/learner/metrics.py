"""What a learner's metrics are, and how they follow from counts per class."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

__all__ = ["Metrics", "cohen_kappa", "macro_f1", "mean_recall"]


# By target: what is printed, and under which name.
PRINTED = {
    "class": {"accuracy": "accuracy", "recent": "recently"},
    "regression": {"mae": "MAE", "rmse": "RMSE", "r2": "R²", "recent_rmse": "recently RMSE"},
    "labels": {
        "f1": "F1", "macro_f1": "macro F1", "hamming": "Hamming loss",
        "recent_f1": "recently F1",
    },
}  # fmt: skip
# By target: the numbers of `as_dict`.
NUMBERS = {
    "class": ("accuracy", "recent", "balanced", "macro_f1", "kappa", "alarms"),
    "regression": ("mae", "rmse", "r2", "recent_mae", "recent_rmse"),
    "labels": ("f1", "macro_f1", "hamming", "average_precision", "recent_f1"),
}


@final
@dataclass(frozen=True)
class Metrics:
    """Prequential metrics: every example was predicted first and learned afterwards.

    Each is None without examples, and if it is not one of the `target`. `left_out` counts the
    examples that could not be trusted: they were not learned, and are in no metric.

    Of classes, `accuracy` is over all that was seen, `recent` over the last ones, `per_class` over
    all of a class and `recent_per_class` over those of a class among the last ones. `balanced` is
    the mean of the accuracies of the classes that occurred, `macro_f1` the mean F1 of the classes
    that occurred or were predicted, and `kappa` Cohen's kappa of labels and predictions, as
    scikit-learn defines them. An example for which there was no prediction counts as wrong: it
    lowers the recall of its class, and is in no class's predictions. `kappa` is None also while
    there is one class, which chance predicts as well. `alarms` counts the drift alarms.

    Of values, `mae`, `rmse` and `r2` are over all that was predicted, `recent_mae` and
    `recent_rmse` over the last ones, in your units; of several values they are averages. An example
    for which there was no prediction is in none of them.

    Of several labels, `f1` is over all pairs of example and label, `macro_f1` the mean over labels,
    `hamming` the share of pairs that were wrong, among the labels that were known then, and
    `average_precision` the mean over labels, from probabilities in hundredths; `recent_f1` is over
    the last examples, and `per_label` the F1 of each label.

    >>> print(Metrics(seen=200, accuracy=0.9, recent=0.95, per_class={"up": 0.85, "down": 0.95}))
    200 examples, accuracy 90.00 %, recently 95.00 %
    >>> print(Metrics(200, mae=0.5, rmse=0.7, r2=0.91, recent_rmse=0.6, target="regression"))
    200 examples, MAE 0.5, RMSE 0.7, R² 0.910, recently RMSE 0.6
    """

    seen: int
    accuracy: float | None = None
    recent: float | None = None
    per_class: Mapping[Hashable, float | None] = field(default_factory=dict)
    left_out: int = 0
    balanced: float | None = None
    macro_f1: float | None = None
    kappa: float | None = None
    recent_per_class: Mapping[Hashable, float | None] = field(default_factory=dict)
    alarms: int = 0
    mae: float | None = None
    rmse: float | None = None
    r2: float | None = None
    recent_mae: float | None = None
    recent_rmse: float | None = None
    f1: float | None = None
    hamming: float | None = None
    average_precision: float | None = None
    recent_f1: float | None = None
    per_label: Mapping[Hashable, float | None] = field(default_factory=dict)
    target: str = "class"

    def __str__(self) -> str:
        parts = [f"{self.seen} examples"]
        parts += [f"{title} {self._shown(name)}" for name, title in PRINTED[self.target].items()]
        parts += [f"{self.left_out} left out"] if self.left_out else []
        alarms = f"{self.alarms} drift alarm{'s' * (self.alarms > 1)}"
        return ", ".join([*parts, alarms] if self.alarms else parts)

    def _shown(self, name: str) -> str:
        value: float | None = getattr(self, name)
        if value is None:
            return "-"
        if self.target != "regression":
            return f"{100 * value:.2f} %"
        return f"{value:.3f}" if name == "r2" else f"{value:.4g}"

    def as_dict(self) -> dict[str, Any]:
        """The metrics of the target as plain data: numbers by name, and a list of classes.

        >>> found = Metrics(200, 0.9, 0.95, {"up": 0.85}, recent_per_class={"up": 0.8}).as_dict()
        >>> found["accuracy"], found["classes"]
        (0.9, [{'class': 'up', 'accuracy': 0.85, 'recent': 0.8}])
        """
        names = ("seen", "left_out", *NUMBERS[self.target])
        found: dict[str, Any] = {name: getattr(self, name) for name in names}
        if self.target == "class":
            found["classes"] = [
                {"class": label, "accuracy": share, "recent": self.recent_per_class.get(label)}
                for label, share in self.per_class.items()
            ]
        if self.target == "labels":
            each = self.per_label.items()
            found["labels"] = [{"label": label, "f1": share} for label, share in each]
        return found


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
