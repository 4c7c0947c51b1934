"""Evaluate a fleet on the tasks of a stream: accuracy, transfer and forgetting."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recollect.errors import InputError
from recollect.methods import Method
from recollect.streams.stream import Batch, Setting, has_task_il
from recollect.train.fleet import Fleet
from recollect.train.measures import LOWER_IS_BETTER, MEASURES, measure

Matrix = NDArray[np.float64]
ROWS = 1000
Counts = dict[str, Tensor]  # confusion matrices per setting, [K, C, C]: true class, predicted class


class Tested(Protocol):
    """The part of a stream that evaluation uses."""

    @property
    def setting(self) -> Setting:
        """The evaluation setting."""

    @property
    def classes(self) -> int:
        """The number of outputs of the network."""

    @property
    def tasks(self) -> int:
        """The number of tasks."""

    def test(self, seeds: Tensor, task: int) -> Batch:
        """The test set of a task."""

    def task_classes(self, task: int) -> tuple[int, ...]:
        """The classes of a task, which are the candidates in Task-IL."""


def settings(stream: Tested, kind: type[Method] = Method) -> tuple[str, ...]:
    """The settings in which a run of a method on this stream is evaluated."""
    if stream.setting in MEASURES:
        return tuple(MEASURES[stream.setting])
    if kind.needs.task_id:
        return ("task",)
    return (stream.setting, "task") if has_task_il(stream) else (stream.setting,)


def accuracy(
    fleet: Fleet, stream: Tested, tasks: Iterable[int], counts: Counts | None = None
) -> dict[str, Tensor]:
    """Compute the accuracy of every run on every task, `[K, tasks]`, in percent, per setting.

    For regression and multi-label targets, there are metrics such as `rmse` instead of settings.
    Class-IL predicts among all classes, Task-IL among those of the task, both from the same
    scores. If `counts` are given, the confusion matrices of these tasks are added to them.
    """
    names = settings(stream, fleet.kind)
    columns = [_right(fleet, stream, task, counts) for task in tasks]
    return {name: torch.stack([c[name] for c in columns], 1) for name in names}


def _right(fleet: Fleet, stream: Tested, task: int, counts: Counts | None) -> dict[str, Tensor]:
    x, y = stream.test(fleet.seeds, task)
    if stream.setting in MEASURES:
        parts = [fleet.predict(x[:, i : i + ROWS], task) for i in range(0, x.shape[1], ROWS)]
        return measure(stream.setting, torch.cat(parts, 1), y)
    names = settings(stream, fleet.kind)
    count = y.shape[1]
    right = {name: torch.zeros_like(fleet.seeds) for name in names}
    outside = torch.ones(stream.classes, dtype=torch.bool, device=fleet.device)
    outside[list(stream.task_classes(task))] = False
    for start in range(0, count, ROWS):
        scores = fleet.predict(x[:, start : start + ROWS], task)
        labels = y[:, start : start + ROWS]
        expected = [fleet.runs, labels.shape[1], stream.classes]
        if list(scores.shape) != expected:
            raise InputError(
                f"predict of {fleet.kind.title} must return scores [K, n, C], here {expected}, not "
                f"{list(scores.shape)}"
            )
        for name in names:
            among = scores.masked_fill(outside, -torch.inf) if name == "task" else scores
            predicted = among.argmax(2)
            right[name] += (predicted == labels).sum(1)
            if counts is not None:
                found = _confusion(predicted, labels, stream.classes)
                counts[name] = counts[name] + found if name in counts else found
    return {name: hits.cpu().double() * 100 / count for name, hits in right.items()}


def _confusion(predicted: Tensor, labels: Tensor, classes: int) -> Tensor:
    runs = torch.arange(len(predicted), device=predicted.device)[:, None]
    pairs = (runs * classes + labels) * classes + predicted
    found = torch.bincount(pairs.flatten(), minlength=len(predicted) * classes**2)
    return found.view(len(predicted), classes, classes).cpu()


@dataclass(frozen=True)
class Scores:
    """Accuracy, transfer and forgetting of one run in one setting; None if undefined or infinite.

    Values are percentages, or in the units of a metric; `accuracy` may be infinite.
    """

    accuracy: float
    fwt: float | None
    bwt: float | None
    forgetting: float | None


def scores(matrix: Matrix, untrained: Matrix | None, setting: str = "class") -> Scores:
    """Compute the scores of an accuracy matrix; row i has the accuracy on every task after task i.

    `untrained` is the accuracy of the untrained network. Entries that were not measured (tasks
    more than one ahead) are NaN. Forward transfer is the accuracy on a task just before training on
    it minus that of the untrained network; backward transfer is the final accuracy minus that just
    after training on it; forgetting is the best accuracy ever minus the final one. For metrics
    where lower is better, signs are reversed: positive transfer is an improvement, and forgetting
    is the increase of the error.

    >>> scores(np.array([[90.0, 20.0], [80.0, 95.0]]), np.array([10.0, 10.0]))
    Scores(accuracy=87.5, fwt=10.0, bwt=-10.0, forgetting=10.0)
    """
    rows, tasks = matrix.shape
    final = matrix[-1]
    accuracy = float(final.mean())
    if setting in LOWER_IS_BETTER:
        turned = scores(-matrix, None if untrained is None else -untrained)
        return replace(turned, accuracy=accuracy)
    if rows != tasks or tasks < 2 or untrained is None:
        return Scores(accuracy, None, None, None)
    with np.errstate(invalid="ignore"):  # differences of infinite errors
        ahead = np.diagonal(matrix, offset=1) - untrained[1:]
        back = final[:-1] - np.diagonal(matrix)[:-1]
        lost = np.nanmax(matrix[:, :-1], axis=0) - final[:-1]
    means = (float(each.mean()) for each in (ahead, back, lost))
    return Scores(accuracy, *(mean if math.isfinite(mean) else None for mean in means))


def plain(matrix: Matrix) -> list[list[float | None]]:
    """Convert a matrix to lists for JSON; None for entries not measured or infinite."""
    return [[float(value) if np.isfinite(value) else None for value in row] for row in matrix]
