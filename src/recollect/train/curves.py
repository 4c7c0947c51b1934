"""Learning curves of a run, and averages of curves and accuracy matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import final


@final
@dataclass(frozen=True)
class Curves:
    """Loss and accuracy of a run, recorded periodically and at the end of tasks.

    Attributes:
        every: The number of steps between two points.
        examples: The largest number of test examples per task for a point within a task; points
            at task end use all test examples.
        steps: The number of steps taken at each point.
        tasks: The task of each point, from 0.
        loss: The loss of the last step, None if it is not finite.
        accuracy: For each setting and point, the percentage on every task that has started.

    >>> curves = Curves(2, 100, [2, 4, 5], [0, 0, 1], [2.3, 1.9, 2.1],
    ...                 {"class": [[60.0], [80.0], [70.0, 10.0]]})
    >>> curves.mean("class"), curves.anytime("class")
    ([60.0, 80.0, 40.0], 64.0)
    """

    every: int
    examples: int
    steps: Sequence[int]
    tasks: Sequence[int]
    loss: Sequence[float | None]
    accuracy: Mapping[str, Sequence[Sequence[float]]]

    def mean(self, setting: str) -> list[float]:
        """The mean accuracy at each point over the tasks that have started."""
        return [sum(row) / len(row) for row in self.accuracy[setting]]

    def anytime(self, setting: str) -> float:
        """The any-time accuracy: the mean of `mean` over the steps of the run.

        Each point is weighted by the number of steps since the previous one.
        """
        spans = [after - before for before, after in pairwise([0, *self.steps])]
        means = self.mean(setting)
        return sum(n * mean for n, mean in zip(spans, means, strict=True)) / self.steps[-1]


def average_incremental(matrix: Sequence[Sequence[float | None]]) -> float | None:
    """The mean over tasks i of the mean accuracy, after task i, on tasks 1 to i.

    None if the accuracy was not measured after every task, as in joint training.

    >>> average_incremental([[90.0, 20.0], [80.0, 100.0]])
    90.0
    """
    if not matrix or any(len(row) != len(matrix) for row in matrix):
        return None
    means = []
    for task, row in enumerate(matrix):
        seen = [each for each in row[: task + 1] if each is not None]
        if len(seen) <= task:
            return None
        means.append(sum(seen) / len(seen))
    return sum(means) / len(means)


def class_accuracies(counts: Sequence[Sequence[int]]) -> list[float | None]:
    """The accuracy on every class in percent; None for a class without test examples.

    >>> class_accuracies([[3, 1], [0, 0]])
    [75.0, None]
    """
    return [100 * row[label] / sum(row) if sum(row) else None for label, row in enumerate(counts)]
