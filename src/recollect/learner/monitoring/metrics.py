"""Prequential metrics: accuracy, F1, Cohen's kappa, regression errors and multi-label scores."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

# By target: the metrics to print, and their titles.
PRINTED = {
    "class": {"accuracy": "accuracy", "recent": "recently"},
    "regression": {"mae": "MAE", "rmse": "RMSE", "r2": "R²", "recent_rmse": "recently RMSE"},
    "labels": {
        "f1": "F1", "macro_f1": "macro F1", "hamming": "Hamming loss",
        "average_precision": "average precision", "recent_f1": "recently F1",
    },
}  # fmt: skip
# By target: the metrics in `as_dict`.
NUMBERS = {
    "class": ("accuracy", "recent", "balanced", "macro_f1", "kappa", "alarms"),
    "regression": ("mae", "rmse", "r2", "recent_mae", "recent_rmse"),
    "labels": ("f1", "macro_f1", "hamming", "average_precision", "recent_f1"),
}


@final
@dataclass(frozen=True)
class Metrics:
    """Prequential metrics of a learner: every example is predicted before it is learned.

    A metric is None while there are no examples, and if it does not apply to the `target`.
    `left_out` counts the outliers that were not learned; no metric includes them.

    Classification: `accuracy` is the accuracy on all examples, `recent` on the last `window`
    examples; `per_class` and `recent_per_class` are the same for the examples of each class.
    `balanced` (balanced accuracy), `macro_f1` and `kappa` (Cohen's kappa) are defined as in
    scikit-learn. An example without a prediction counts as wrong: it lowers the recall of its
    class, and is not counted as a prediction of any class. `kappa` is also None while labels and
    predictions are all of one class. `alarms` counts the drift alarms.

    Regression: `mae`, `rmse` and `r2` are over all predictions, and `recent_mae` and `recent_rmse`
    over the last ones, in the units of the target; with several values per example, they are means
    over the values. An example without a prediction is not included.

    Multi-label classification: `f1` is the micro-averaged F1, `macro_f1` the mean F1 of the labels,
    `hamming` the Hamming loss over the labels known after the batch, and `average_precision` the
    mean over labels, with probabilities in bins of 0.01. `recent_f1` is `f1` over the last
    examples, and `per_label` has the F1 of each label.

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
        """Return the metrics of the target as plain data: numbers by name, and a list of classes.

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
    """Compute the balanced accuracy: the mean recall of the classes that occurred.

    >>> mean_recall(np.array([9, 1, 0]), np.array([10, 2, 0]))
    0.7
    """
    there = met > 0
    return float((right[there] / met[there]).mean()) if there.any() else None


def macro_f1(right: np.ndarray, met: np.ndarray, predicted: np.ndarray) -> float | None:
    """Compute the mean F1 of the classes that occurred or were predicted, from `[classes]` counts.

    >>> macro_f1(np.array([4, 0]), np.array([4, 4]), np.array([8, 0]))
    0.3333333333333333
    """
    right, met, predicted = _of_one_length(right, met, predicted)
    both = met + predicted
    there = both > 0
    return float((2 * right[there] / both[there]).mean()) if there.any() else None


def cohen_kappa(right: np.ndarray, met: np.ndarray, predicted: np.ndarray) -> float | None:
    """Compute Cohen's kappa from `[classes]` counts; None if chance agreement is perfect.

    >>> cohen_kappa(np.array([4, 0]), np.array([4, 4]), np.array([8, 0]))
    0.0
    """
    right, met, predicted = _of_one_length(right, met, predicted)
    seen = int(met.sum())
    if not seen:
        return None
    # With Python integers: a product of two counts may exceed 64 bits.
    by_chance = sum(m * p for m, p in zip(met.tolist(), predicted.tolist(), strict=True))
    if by_chance == seen * seen:
        return None
    return float((int(right.sum()) * seen - by_chance) / (seen * seen - by_chance))


def _of_one_length(*counts: np.ndarray) -> list[np.ndarray]:
    length = max(len(each) for each in counts)
    return [np.pad(each, (0, length - len(each))) for each in counts]
