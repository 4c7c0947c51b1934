"""The accuracy on single tasks while later ones are learnt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from recollect.errors import InputError
from recollect.experiments.figures.cells import Line, Point, at, cells, in_order
from recollect.experiments.figures.look import caption, look, new_figure, title_of
from recollect.experiments.labels import SETTINGS
from recollect.experiments.results import Mean, Summary
from recollect.streams import BENCHMARKS
from recollect.train import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["OverTimeData", "TaskPanel", "data", "draw"]

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
    results: Iterable[Result], methods: Sequence[str] = FEATURED, buffer: int = BUFFER
) -> OverTimeData:
    """How well each method does on some tasks, from when they are learnt until the end.

    Of a long sequence the first task is shown, and some that follow it evenly.
    """
    found = [
        each
        for each in cells(results)
        if each.first.method in methods and each.first.buffer in (None, buffer)
    ]
    rows: dict[tuple[str, str], list[Summary]] = {}
    for each in found:
        for setting, matrix in each.first.matrix.items():
            # Task-IL has little to tell here: all but SGD stay at the top.
            if len(matrix) > 1 and setting != "task":
                rows.setdefault((each.first.benchmark, setting), []).append(each)
    if not rows:
        raise InputError(
            f"no results with a sequence of tasks: run recollect reproduce seq-mnist --methods "
            f"{' '.join(methods)} --buffers {buffer} first"
        )
    names = list(BENCHMARKS)
    order = sorted(
        rows, key=lambda row: (names.index(row[0]) if row[0] in names else len(names), row[1])
    )
    return OverTimeData(
        buffer,
        tuple(
            TaskPanel(
                *row, count, task, tuple(_line(each, row[1], task) for each in _sorted(rows[row]))
            )
            for row in order
            for count in [len(rows[row][0].first.matrix[row[1]])]
            for task in [*_tasks(count), None]
        ),
    )


def draw(drawn: OverTimeData) -> Figure:
    """A row for each benchmark and setting, a column for each of its tasks, then the mean."""
    rows = list(dict.fromkeys((panel.benchmark, panel.setting) for panel in drawn.panels))
    columns = TASKS_SHOWN + 1
    labels: dict[str, Any] = {}
    with new_figure(len(rows), columns, 12.5, 2.5 * len(rows) + 1.2) as (figure, axes):
        for number, row in enumerate(rows):
            panels = [p for p in drawn.panels if (p.benchmark, p.setting) == row]
            places = axes[number * columns : (number + 1) * columns]
            for place in places[len(panels) - 1 : -1]:
                place.set_axis_off()
            for panel, place in zip(panels, [*places[: len(panels) - 1], places[-1]], strict=True):
                labels |= _draw_panel(panel, place)
            places[0].set_ylabel(f"{row[0]}, {SETTINGS[row[1]]}\naccuracy (%)")
        for place in axes[-columns:]:
            place.set_xlabel("tasks learnt")
        figure.legend(
            [labels[method] for method in in_order(labels)],
            [title_of(method) for method in in_order(labels)],
            loc="outside upper right", ncols=len(labels),
        )  # fmt: skip
        seeds = max(p.seeds for panel in drawn.panels for line in panel.lines for p in line.points)
        caption(
            figure,
            "What is left of a task while later ones are learnt",
            f"Methods with a memory hold {drawn.buffer} examples. Mean over {seeds} seeds; bands: "
            f"one standard deviation.",
        )
    return figure


def _sorted(summaries: list[Summary]) -> list[Summary]:
    by_method = {each.first.method: each for each in summaries}
    return [by_method[method] for method in in_order(by_method)]


def _tasks(count: int) -> list[int]:
    """Which tasks to show, from 1: the first, and some evenly after it; never the last.

    >>> _tasks(5), _tasks(20), _tasks(2)
    ([1, 2, 3, 4], [1, 6, 11, 16], [1])
    """
    shown = min(TASKS_SHOWN, count - 1)
    return [1 + place * count // shown for place in range(shown)]


def _line(summary: Summary, setting: str, task: int | None) -> Line:
    method, matrices = summary.first.method, [run.matrix[setting] for run in summary.runs]
    points: list[Point] = []
    for after in range(len(matrices[0])):
        if task is not None and after < task - 1:
            continue
        seen = slice(task - 1, task) if task is not None else slice(0, after + 1)
        mean = Mean.of([_mean(matrix[after][seen]) for matrix in matrices])
        if mean is not None:
            points.append(at(after + 1, mean))
    return Line(method, tuple(points))


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) else None


def _draw_panel(panel: TaskPanel, axes: Axes) -> dict[str, Any]:
    from matplotlib.ticker import MaxNLocator

    drawn: dict[str, Any] = {}
    for line in panel.lines:
        style = look(line.method)
        x = [p.x for p in line.points]
        low, high = ([p.mean + sign * p.std for p in line.points] for sign in (-1, 1))
        axes.fill_between(x, low, high, color=style.colour, alpha=0.15, linewidth=0)
        (drawn[line.method],) = axes.plot(
            x, [p.mean for p in line.points], color=style.colour, linestyle=style.line,
            marker=style.marker if panel.tasks <= FEW else None, markersize=3.5,
        )  # fmt: skip
    axes.set_ylim(-3, 103)
    axes.set_xlim(0.8, panel.tasks + 0.2)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title("mean of the tasks so far" if panel.task is None else f"task {panel.task}")
    return drawn
