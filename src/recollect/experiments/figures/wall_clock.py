"""What training costs with each method, in time."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import final

from recollect.errors import DataError, InputError
from recollect.experiments.figures.chart import Chart
from recollect.experiments.figures.drawing import Drawing, Plot
from recollect.experiments.figures.runs import in_order
from recollect.methods import METHODS
from recollect.train import Result

__all__ = ["Bar", "TimePanel", "WallClockData", "data", "drawing", "from_bench"]

VARIANTS = "er-"
HEAD = re.compile(r"^(?P<what>.+, batches of \d+, replays of \d+, memory \d+, .+)$")
ROW = re.compile(r"^(?P<title>\S.*?) {2,}(?P<cost>\d+) +\d+\.\d\d(?: |$)")


@final
@dataclass(frozen=True)
class Bar:
    """What one method costs: the quickest of its runs, and the slowest."""

    method: str
    least: float
    most: float

    def __post_init__(self) -> None:
        if not 0 < self.least <= self.most:
            raise ValueError("a time must be positive, and the slowest not below the quickest")


@final
@dataclass(frozen=True)
class TimePanel:
    """Methods that were timed on one machine in one way."""

    title: str
    unit: str
    bars: tuple[Bar, ...]
    benchmark: str = ""


@final
@dataclass(frozen=True)
class WallClockData:
    """The panels, and how the times came about."""

    panels: tuple[TimePanel, ...]
    note: str


def data(results: Iterable[Result]) -> WallClockData:
    """The training time of a run, by benchmark and machine; whatever its buffer.

    It is that of a fleet divided by its runs. Whatever else a machine does makes it longer, never
    shorter, so the quickest run counts.
    """
    times: dict[tuple[str, str], dict[str, list[float]]] = {}
    for run in results:
        if not run.validation and not run.method.startswith(VARIANTS) and run.train_seconds > 0:
            panel = times.setdefault((run.benchmark, run.device), {})
            panel.setdefault(run.method, []).append(run.train_seconds)
    if not times:
        raise InputError(
            "no results to take times from: run recollect reproduce BENCHMARK first, or give the "
            "output of make bench-methods with --bench"
        )
    return WallClockData(
        tuple(
            TimePanel(f"{benchmark}, {device}", "seconds a run", tuple(
                Bar(method, min(of[method]), max(of[method])) for method in in_order(of)
            ), benchmark)
            for (benchmark, device), of in times.items()
        ),
        "Training time of a fleet divided by its runs, without evaluation, with each method's own "
        "batch sizes. Bar: the quickest run; thin line: up to the slowest.",
    )  # fmt: skip


def from_bench(path: Path) -> WallClockData:
    """The times of a step that `make bench-methods` printed into a file; a panel for each table."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from None
    names = {kind.title: name for name, kind in METHODS.items()}
    tables: list[tuple[str, list[Bar]]] = []
    for line in lines:
        if head := HEAD.match(line):
            tables.append((head["what"], []))
        elif tables and (row := ROW.match(line)):
            name, cost = names.get(row["title"], VARIANTS), float(row["cost"])
            if not name.startswith(VARIANTS):
                tables[-1][1].append(Bar(name, cost, cost))
    panels = [
        TimePanel(title, "µs a run and step", tuple(
            sorted(bars, key=lambda bar: in_order(METHODS).index(bar.method))
        ))
        for title, bars in tables if bars
    ]  # fmt: skip
    if not panels:
        raise DataError(f"{path} has no table as make bench-methods prints it")
    return WallClockData(
        tuple(panels),
        "A step of every method with the same network, batches and memory, the best of five "
        "rounds (make bench-methods). What is done between two tasks is not in it.",
    )


def drawing(drawn: WallClockData) -> Drawing:
    """A plot for each machine; bars from left to right, with their numbers beside them."""
    most = max(len(panel.bars) for panel in drawn.panels)
    return Drawing(
        "What training costs with each method",
        drawn.note,
        [
            Plot(
                re.sub(r", (batches|memory)", r",\n\1", panel.title),
                partial(_draw, panel),
                panel.benchmark,
                rows=len(panel.bars),
            )
            for panel in drawn.panels
        ],
        columns=3,
        size=(4.0, 1.0 + 0.2 * most),
    )


def _draw(panel: TimePanel, chart: Chart) -> None:
    chart.rows([bar.method for bar in panel.bars])
    for row, bar in enumerate(panel.bars):
        words = [f"{bar.least:.4g} {panel.unit}"]
        words += [f"the slowest {bar.most:.4g}"] if bar.most > bar.least else []
        chart.bar(row, bar.method, bar.least, bar.most, words)
    chart.axes.set_xlim(0, 1.18 * max(bar.most for bar in panel.bars))
    chart.axes.grid(axis="y", visible=False)
    chart.axes.set_xlabel(panel.unit)
