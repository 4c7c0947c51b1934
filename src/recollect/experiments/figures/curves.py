"""Figure of loss and accuracy during training, for runs that recorded curves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import final

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
from recollect.train.curves import Curves

LOSS = "loss"
MOST_POINTS = 200  # per line

Values = Callable[[Curves], Sequence[float | None]]


@final
@dataclass(frozen=True)
class CurvePanel:
    """Curves of all methods with one buffer on a benchmark: accuracy in a setting, or the loss."""

    benchmark: str
    setting: str
    buffer: int | None
    ends: tuple[int, ...]
    lines: tuple[Line, ...]
    variant: str = ""

    @property
    def title(self) -> str:
        """Title: benchmark, setting (or loss) and buffer."""
        panel = Panel(self.benchmark, self.setting, (), self.variant)
        return panel.title + ("" if self.buffer is None else f", buffer {self.buffer}")

    @property
    def view(self) -> str:
        """Title of the view: loss or accuracy."""
        return "training loss" if self.setting == LOSS else "mean accuracy of the tasks so far"


@final
@dataclass(frozen=True)
class CurvesData:
    """Panels for each benchmark, setting and buffer, and for the loss."""

    panels: tuple[CurvePanel, ...]


def data(material: Material) -> CurvesData:
    """Compute mean curves over seeds; methods without a memory are in the panels of all buffers."""
    found = [each for each in material.cells if any(run.curves for run in each.runs)]
    made: list[CurvePanel] = []
    for panel, of in by_panel(found):
        every = [each for summaries in of.values() for each in summaries]
        buffers = {size for each in every if (size := each.first.buffer) is not None}
        sizes: list[int | None] = [*sorted(buffers)] or [None]
        values: dict[str, Values] = {panel.setting: partial(mean_accuracy, setting=panel.setting)}
        if not any(p.benchmark == panel.benchmark and p.variant == panel.variant for p in made):
            values[LOSS] = losses
        for setting, value in values.items():
            for buffer in sizes:
                shown = [each for each in every if each.first.buffer in (None, buffer)]
                lines = [mean_line(each, value, each.first.method) for each in shown]
                some = tuple(line for line in lines if line.points)
                ends = task_ends(alike(shown[0])[0])
                if some:
                    made.append(
                        CurvePanel(panel.benchmark, setting, buffer, ends, some, panel.variant)
                    )
    if not made:
        raise InputError(
            "no results with curves: run recollect run seq-mnist derpp --buffer 200 --curves first"
        )
    return CurvesData(tuple(made))


def drawing(drawn: CurvesData) -> Drawing:
    """Draw one plot per panel."""
    seeds = seeds_behind(panel.lines for panel in drawn.panels)
    return Drawing(
        "Loss and accuracy during training",
        f"Mean over {seeds}; bands: one standard deviation. Dotted lines: task ends. The mean of "
        f"an accuracy over all steps is the any-time accuracy.",
        [Plot.of(panel, _draw, buffer=panel.buffer, view=panel.view) for panel in drawn.panels],
        columns=3,
        size=(3.6, 2.8),
    )


def alike(summary: Summary) -> list[Curves]:
    """Return the largest group of curves that were measured at the same steps."""
    groups: dict[tuple[int, ...], list[Curves]] = {}
    for run in summary.runs:
        if run.curves is not None:
            groups.setdefault(tuple(run.curves.steps), []).append(run.curves)
    return max(groups.values(), key=len)


def mean_accuracy(curves: Curves, setting: str) -> Sequence[float | None]:
    """Return the mean accuracy on the tasks so far at each point; None without that setting."""
    known = setting in curves.accuracy
    return curves.mean(setting) if known else [None] * len(curves.steps)


losses: Values = attrgetter("loss")  # the training loss at each point


def mean_line(summary: Summary, values: Values, key: str, *, title: str = "") -> Line:
    """Compute the mean line of the seeds measured at the same steps, with at most 200 points."""
    curves = alike(summary)
    rows = [values(each) for each in curves]
    points = []
    for place in _places(curves[0]):
        mean = Mean.of([row[place] for row in rows])
        if mean is not None:
            points.append(at(curves[0].steps[place], mean, summary.first.buffer))
    return Line(key, tuple(points), title or summary.first.method_title)


def draw_axes(chart: Chart, ends: Iterable[int], *, loss: bool) -> None:
    """Label the axes, and draw a dotted line at each task end except the last."""
    for step in list(ends)[:-1]:
        chart.axes.axvline(step, color="#9a9a9a", linewidth=0.8, linestyle=":", zorder=1)
    chart.axes.set(xlabel="steps")
    chart.axes.set_xlim(left=0)
    if loss:
        chart.axes.set(ylabel="loss")
        chart.axes.set_ylim(bottom=0)
    else:
        chart.axes.set(ylabel="accuracy (%)", ylim=(-3, 103))


def words(point: Point) -> list[str]:
    """Describe a point of a curve, for its tooltip.

    >>> words(Point(40, 80.25, 1.5, seeds=3))
    ['after 40 steps', '80.25 ±1.50']
    """
    return [f"after {point.x:g} steps", str(point)]


def _draw(panel: CurvePanel, chart: Chart) -> None:
    for line in panel.lines:
        chart.line(line, words, band=True, markers=False)
    draw_axes(chart, panel.ends, loss=panel.setting == LOSS)


def task_ends(curves: Curves) -> tuple[int, ...]:
    """Return the step at which each task ends."""
    last = dict(zip(curves.tasks, curves.steps, strict=True))
    return tuple(last[task] for task in sorted(last))


def _places(curves: Curves) -> list[int]:
    """Return the indices of the points to draw: evenly spaced ones, and all task ends."""
    count = len(curves.steps)
    stride = math.ceil(count / MOST_POINTS)
    ends = set(task_ends(curves))
    return [
        n for n, step in enumerate(curves.steps) if (count - 1 - n) % stride == 0 or step in ends
    ]
