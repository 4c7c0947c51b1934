"""The accuracy on single tasks while later ones are learnt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

from recollect.errors import InputError
from recollect.experiments.figures.chart import Chart
from recollect.experiments.figures.drawing import Drawing, Plot
from recollect.experiments.figures.runs import Line, Point, at, cells, in_order, seeds_behind
from recollect.experiments.labels import known_first, setting_title
from recollect.experiments.results import Mean, Summary
from recollect.streams import BENCHMARKS
from recollect.train import Result

__all__ = ["OverTimeData", "TaskPanel", "data", "drawing"]

FEATURED = ("sgd", "oewc", "er", "agem", "der", "derpp")
BUFFER = 500
TASKS_SHOWN = 4
FEW = 10


@final
@dataclass(frozen=True)
class TaskPanel:
    """The accuracy on one of the tasks (from 1), or the mean of all so far, after every task."""

    benchmark: str
    setting: str
    tasks: int
    task: int | None
    lines: tuple[Line, ...]


@final
@dataclass(frozen=True)
class OverTimeData:
    """All panels, row after row; those of one benchmark and setting follow each other."""

    buffer: int
    panels: tuple[TaskPanel, ...]


def data(
    results: Iterable[Result], methods: Sequence[str] | None = FEATURED, buffer: int = BUFFER
) -> OverTimeData:
    """How well each method (None: all) does on some tasks, from when they are learnt until the end.

    Of a long sequence the first task is shown, and some that follow it evenly.
    """
    rows: dict[str, dict[str, dict[str, Summary]]] = {}
    for each in cells(results):
        run = each.first
        if (methods is None or run.method in methods) and run.buffer in (None, buffer):
            for setting, matrix in run.matrix.items():
                # Task-IL has little to tell here: all but SGD stay at the top.
                if len(matrix) > 1 and setting != "task":
                    by_method = rows.setdefault(run.benchmark, {}).setdefault(setting, {})
                    by_method[run.method] = each
    if not rows:
        raise InputError(
            f"no results with a sequence of tasks: run recollect reproduce seq-mnist --methods "
            f"{' '.join(methods or FEATURED)} --buffers {buffer} first"
        )
    return OverTimeData(
        buffer,
        tuple(
            TaskPanel(name, setting, count, task, tuple(
                _line(of[method], setting, task) for method in in_order(of)
            ))
            for name in known_first(rows, BENCHMARKS)
            for setting, of in sorted(rows[name].items())
            for count in [len(next(iter(of.values())).first.matrix[setting])]
            for task in [*_tasks(count), None]
        ),
    )  # fmt: skip


def drawing(drawn: OverTimeData) -> Drawing:
    """A plot for each panel; each benchmark and setting with more than four tasks has a row."""
    lines = [line for panel in drawn.panels for line in panel.lines]
    return Drawing(
        "What is left of a task while later ones are learnt",
        f"Methods with a memory store {drawn.buffer} examples. Mean over {seeds_behind(lines)}; "
        f"bands: one standard deviation.",
        [
            Plot(
                f"{panel.benchmark}, {setting_title(panel.setting)}\n{_view(panel)}",
                partial(_draw, panel),
                panel.benchmark,
                view=_view(panel),
            )
            for panel in drawn.panels
        ],
        columns=TASKS_SHOWN + 1,
        size=(2.4, 2.6),
    )


def _view(panel: TaskPanel) -> str:
    return "mean of the tasks so far" if panel.task is None else f"task {panel.task}"


def _tasks(count: int) -> list[int]:
    """Which tasks to show, from 1: the first, and some evenly after it; never the last.

    >>> _tasks(5), _tasks(20), _tasks(2)
    ([1, 2, 3, 4], [1, 6, 11, 16], [1])
    """
    shown = min(TASKS_SHOWN, count - 1)
    return [1 + number * count // shown for number in range(shown)]


def _line(summary: Summary, setting: str, task: int | None) -> Line:
    run, matrices = summary.first, [r.matrix[setting] for r in summary.runs if setting in r.matrix]
    points: list[Point] = []
    for after in range(len(matrices[0])):
        if task is not None and after < task - 1:
            continue
        seen = slice(task - 1, task) if task is not None else slice(0, after + 1)
        means = [Mean.of(matrix[after][seen]) for matrix in matrices]
        mean = Mean.of([each.mean if each else None for each in means])
        if mean is not None:
            points.append(at(after + 1, mean, run.buffer))
    return Line(run.method, tuple(points))


def _draw(panel: TaskPanel, chart: Chart) -> None:
    from matplotlib.ticker import MaxNLocator

    for line in panel.lines:
        chart.line(line, _words, band=True, markers=panel.tasks <= FEW)
    chart.axes.set_ylim(-3, 103)
    chart.axes.set_xlim(0.8, panel.tasks + 0.2)
    chart.axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    chart.axes.set_xlabel("tasks learnt")
    chart.axes.set_ylabel("accuracy (%)")


def _words(point: Point) -> list[str]:
    return [f"after task {point.x:g}", str(point)]
