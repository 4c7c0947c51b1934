"""DER++ against ER with other memory policies, at very small memories."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from recollect.errors import InputError
from recollect.experiments.figures.chart import Chart
from recollect.experiments.figures.drawing import Drawing, Plot
from recollect.experiments.figures.runs import (
    Line,
    Panel,
    Panels,
    buffer_and_mean,
    cells,
    panels,
)
from recollect.experiments.labels import known_first
from recollect.train import Result

__all__ = ["data", "drawing"]

VARIANTS = ("er-ring", "er-kmeans", "er-mof", "er-hybrid")
COMPARED = ("er", *VARIANTS, "derpp")
NAMES_OF_ER = {"er": "ER (reservoir)"}


def data(results: Iterable[Result]) -> Panels:
    """ER, its variants and DER++ with every buffer that a variant was run with."""
    found = [each for each in cells(results) if each.first.method in COMPARED]
    sizes = {
        (each.first.benchmark, each.first.buffer) for each in found if each.first.method in VARIANTS
    }
    if not sizes:
        raise InputError(
            "no results of ER's other memories: run recollect run seq-mnist METHOD --buffer 10 20 "
            "50 100 for er, er-ring, er-kmeans, er-mof, er-hybrid and derpp first"
        )
    compared = [each for each in found if (each.first.benchmark, each.first.buffer) in sizes]
    # Task-IL has nothing to tell here: all are near the top.
    made = panels(compared, lambda run: float(run.buffer or 0), without=("task",))
    return Panels(tuple(replace(panel, lines=_ordered(panel.lines)) for panel in made))


def drawing(drawn: Panels) -> Drawing:
    """A plot for each panel."""
    return Drawing(
        "DER++ and ER with other memories, when memory is tiny",
        "Accuracy after the last task. The sizes are those that one of ER's variants was run "
        f"with. Mean and standard deviation over {drawn.seeds}.",
        [Plot(panel.title, partial(_draw, panel), panel.benchmark) for panel in drawn.panels],
        columns=2,
        size=(5.8, 4.2),
    )


def _ordered(lines: Iterable[Line]) -> tuple[Line, ...]:
    by_method = {line.method: line for line in lines}
    return tuple(by_method[method] for method in known_first(by_method, COMPARED))


def _draw(panel: Panel, chart: Chart) -> None:
    """Points of one size stand side by side, so that their bars can be read."""
    sizes = sorted({p.x for line in panel.lines for p in line.points})
    chart.log_scale("x", lambda size: f"{size:g}", at=sizes)
    for number, line in enumerate(panel.lines):
        shift = 1.025 ** (number - (len(panel.lines) - 1) / 2)
        aside = tuple(replace(p, x=p.x * shift) for p in line.points)
        chart.line(
            Line(line.method, aside), buffer_and_mean, title=NAMES_OF_ER.get(line.method, "")
        )
    chart.axes.set_xlabel("examples in memory")
    chart.axes.set_ylabel("accuracy (%)")
