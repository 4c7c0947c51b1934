"""Figure of the accuracy on single tasks while later ones are learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from recollect.errors import InputError
from recollect.experiments.figures.chart import Chart
from recollect.experiments.figures.drawing import Drawing, Plot
from recollect.experiments.figures.runs import (
    Line,
    Material,
    Panel,
    Point,
    at,
    by_panel,
    seeds_behind,
)
from recollect.experiments.results import Mean, Summary

FEATURED = ("sgd", "oewc", "er", "agem", "der", "derpp")
BUFFER = 500
TASKS_SHOWN = 4
FEW = 10


@final
@dataclass(frozen=True)
class TaskPanel:
    """Accuracy after each task, on one task (from 1) or averaged over all tasks so far."""

    benchmark: str
    setting: str
    tasks: int
    task: int | None
    lines: tuple[Line, ...]
    variant: str = ""

    @property
    def title(self) -> str:
        """Title: benchmark, setting and view."""
        return f"{Panel(self.benchmark, self.setting, (), self.variant).title}\n{self.view}"

    @property
    def view(self) -> str:
        """Title of the view: one task, or the mean of the tasks so far."""
        return "mean of the tasks so far" if self.task is None else f"task {self.task}"


@final
@dataclass(frozen=True)
class OverTimeData:
    """All panels in row order, grouped by benchmark and setting."""

    buffer: int
    panels: tuple[TaskPanel, ...]


def data(
    material: Material, methods: Sequence[str] | None = FEATURED, buffer: int = BUFFER
) -> OverTimeData:
    """Compute the accuracy of each method (None: all) on some tasks over the rest of the stream.

    For a long sequence, these are the first task and some evenly spaced later ones.
    """
    found = [
        each
        for each in material.cells
        if (methods is None or each.first.method in methods)
        and each.first.buffer in (None, buffer)
        and any(len(matrix) > 1 for matrix in each.first.matrix.values())
    ]
    made = []
    for panel, of in by_panel(found):
        setting = panel.setting
        # Task-IL is not shown: all methods except SGD stay near the top.
        rows = {method: each for method, (each,) in of.items() if setting in each.first.matrix}
        if setting != "task" and rows:
            count = len(next(iter(rows.values())).first.matrix[setting])
            for task in (*_tasks(count), None):
                lines = tuple(_line(each, setting, task) for each in rows.values())
                made.append(TaskPanel(panel.benchmark, setting, count, task, lines, panel.variant))
    if not made:
        raise InputError(
            f"no results with a sequence of tasks: run recollect reproduce seq-mnist --methods "
            f"{' '.join(methods or FEATURED)} --buffers {buffer} first"
        )
    return OverTimeData(buffer, tuple(made))


def drawing(drawn: OverTimeData) -> Drawing:
    """Draw one plot per panel; benchmarks with more than four tasks have a row each."""
    seeds = seeds_behind(panel.lines for panel in drawn.panels)
    return Drawing(
        "Accuracy on a task while later ones are learned",
        f"Methods with a memory store {drawn.buffer} examples. Mean over {seeds}; "
        f"bands: one standard deviation.",
        [Plot.of(panel, _draw, view=panel.view) for panel in drawn.panels],
        columns=TASKS_SHOWN + 1,
        size=(2.4, 2.6),
    )


def _tasks(count: int) -> list[int]:
    """Choose the tasks to show, from 1: the first and some evenly spaced ones, never the last.

    >>> _tasks(5), _tasks(20), _tasks(2)
    ([1, 2, 3, 4], [1, 6, 11, 16], [1])
    """
    shown = min(TASKS_SHOWN, count - 1)
    return [1 + number * count // shown for number in range(shown)]


def _line(summary: Summary, setting: str, task: int | None) -> Line:
    found = [run.matrix[setting] for run in summary.runs if setting in run.matrix]
    matrices = np.array(found, dtype=float)  # [seeds, after each task, on each task]
    points: list[Point] = []
    for after in range((task or 1) - 1, len(found[0])):
        seen = slice(task - 1, task) if task else slice(after + 1)
        means = matrices[:, after, seen].mean(1)
        mean = Mean.of(means.tolist())
        if mean is not None and not np.isnan(means).any():
            points.append(at(after + 1, mean, summary.first.buffer))
    return Line(summary.first.method, tuple(points), summary.first.method_title)


def _draw(panel: TaskPanel, chart: Chart) -> None:
    from matplotlib.ticker import MaxNLocator

    for line in panel.lines:
        chart.line(
            line,
            lambda point: [f"after task {point.x:g}", str(point)],
            band=True,
            markers=panel.tasks <= FEW,
        )
    chart.axes.set(xlabel="tasks learned", xlim=(0.8, panel.tasks + 0.2))
    chart.axes.set(ylabel="accuracy (%)", ylim=(-3, 103))
    chart.axes.xaxis.set_major_locator(MaxNLocator(integer=True))
