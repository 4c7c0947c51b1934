"""Accuracy against the bytes that a method stores besides its network."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from recollect.errors import InputError
from recollect.experiments import paper
from recollect.experiments.figures.chart import Chart
from recollect.experiments.figures.drawing import Drawing, Plot
from recollect.experiments.figures.runs import (
    Line,
    Panel,
    Panels,
    Point,
    buffer_and_mean,
    cells,
    panels,
)
from recollect.experiments.results import Summary
from recollect.streams import BENCHMARKS
from recollect.train import Result

__all__ = ["data", "drawing"]

VARIANTS = "er-"


def data(results: Iterable[Result]) -> Panels:
    """Every method with every buffer, at the bytes of its actual state.

    They are counted from the tensors of a run after its last task (`memory_bytes`): stored
    examples, the method's state, and what its network has grown by. ER's other memories, and
    buffers that only they are compared at, have a figure of their own.
    """
    found = [each for each in cells(results) if _shown(each)]
    if not any(each.first.memory_bytes for each in found):
        raise InputError(
            "no results of methods that hold anything: run recollect reproduce BENCHMARK first"
        )
    return Panels(panels(found, lambda run: float(run.memory_bytes)))


def drawing(drawn: Panels) -> Drawing:
    """A plot for each panel; methods that store nothing are lines across."""
    return Drawing(
        "Accuracy against the bytes that a method stores",
        "Bytes are counted from the state of a run after its last task, without the network that "
        "all share.\nJoined points: growing buffers. Dashed and dotted lines across: methods that "
        f"store nothing. Mean and standard deviation over {drawn.seeds}.",
        [Plot(panel.title, partial(_draw, panel), panel.benchmark) for panel in drawn.panels],
        columns=3,
        size=(3.7, 3.4),
    )


def _shown(summary: Summary) -> bool:
    run = summary.first
    known = BENCHMARKS.get(run.benchmark)
    usual = paper.buffers(known.paper, "er") if known and known.stands_in is None else ()
    tiny = run.buffer is not None and bool(usual) and run.buffer < min(usual)
    return not (run.method.startswith(VARIANTS) or tiny)


def _draw(panel: Panel, chart: Chart) -> None:
    chart.log_scale("x", _bytes)
    for line in panel.lines:
        stored = [point for point in line.points if point.x > 0]
        if stored:
            chart.line(Line(line.method, tuple(stored)), _words)
        for point in line.points:
            if point.x == 0:
                chart.level(line.method, point, _words)
    chart.axes.set_xlabel("stored besides the network")
    chart.axes.set_ylabel("accuracy (%)")


def _words(point: Point) -> list[str]:
    return [*buffer_and_mean(point), f"{_bytes(point.x)} stored"]


def _bytes(value: float) -> str:
    """Bytes in a few letters.

    >>> _bytes(200_000), _bytes(4_000_000), _bytes(166_400)
    ('200 kB', '4 MB', '166 kB')
    """
    for size, unit in ((1e6, "MB"), (1e3, "kB")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:g} B"
