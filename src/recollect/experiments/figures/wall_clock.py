"""Figure of the training time of each method."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import final

from recollect.errors import DataError, InputError
from recollect.experiments.apart import variants
from recollect.experiments.figures.chart import Chart
from recollect.experiments.figures.drawing import Drawing, Plot
from recollect.experiments.figures.runs import Material
from recollect.experiments.labels import known_first
from recollect.methods import METHODS
from recollect.train import Result

VARIANTS = "er-"
HEAD = re.compile(r"^(?P<what>.+, batches of \d+, replays of \d+, memory \d+, .+)$")
ROW = re.compile(r"^(?P<title>\S.*?) {2,}(?P<cost>\d+) +\d+\.\d\d(?: |$)")


@final
@dataclass(frozen=True)
class Bar:
    """Training time of one method: its fastest and slowest run."""

    method: str
    least: float
    most: float
    title: str = ""  # title of a custom method

    def __post_init__(self) -> None:
        if not 0 < self.least <= self.most:
            raise ValueError("times must be positive, and `most` at least `least`")


@final
@dataclass(frozen=True)
class TimePanel:
    """Methods that were timed on one machine with one configuration."""

    title: str
    unit: str
    bars: tuple[Bar, ...]
    benchmark: str = ""
    variant: str = ""


@final
@dataclass(frozen=True)
class WallClockData:
    """All panels, and a note on how the times were measured."""

    panels: tuple[TimePanel, ...]
    note: str


def data(material: Material) -> WallClockData:
    """Compute the training time per run by benchmark and machine, or per step from a bench file.

    It is the time of a fleet divided by its number of runs, over all buffers. Other load on a
    machine only adds time, so the fastest run is shown.
    """
    if material.bench is not None:
        return from_bench(material.bench)
    variant = variants(material.results)
    times: dict[tuple[str, str, str], dict[str, list[Result]]] = {}
    for run in material.results:
        if not run.validation and not run.method.startswith(VARIANTS) and run.train_seconds > 0:
            panel = times.setdefault((run.benchmark, run.device, variant(run)), {})
            panel.setdefault(run.method, []).append(run)
    if not times:
        raise InputError(
            "no results with training times: run recollect reproduce BENCHMARK first, or pass the "
            "output of make bench-methods with --bench"
        )
    panels = []
    for (benchmark, device, which), of in times.items():
        bars = tuple(_bar(of[method]) for method in known_first(of, METHODS))
        title = ", ".join(filter(None, (benchmark, device, which)))
        panels.append(TimePanel(title, "seconds per run", bars, benchmark, which))
    return WallClockData(
        tuple(panels),
        "Training time of a fleet divided by its runs, without evaluation, with each method's own "
        "batch sizes. Bar: fastest run; thin line: up to the slowest.",
    )


def from_bench(path: Path) -> WallClockData:
    """Read step times from the output of `make bench-methods`, with one panel per table."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from None
    names = {kind.title: name for name, kind in METHODS.items()}
    tables: dict[str, dict[str, Bar]] = {}
    bars: dict[str, Bar] = {}
    for line in lines:
        if head := HEAD.match(line):
            bars = tables.setdefault(head["what"], {})
        elif row := ROW.match(line):
            name, cost = names.get(row["title"], VARIANTS), float(row["cost"])
            if not name.startswith(VARIANTS):
                bars[name] = Bar(name, cost, cost)
    panels = [
        TimePanel(
            title, "µs per run and step", tuple(found[name] for name in known_first(found, METHODS))
        )
        for title, found in tables.items()
        if found
    ]
    if not panels:
        raise DataError(f"{path} has no table as make bench-methods prints it")
    return WallClockData(
        tuple(panels),
        "One step of each method with the same network, batches and memory, best of five rounds "
        "(make bench-methods). Work between tasks is not included.",
    )


def drawing(drawn: WallClockData) -> Drawing:
    """Draw one plot of horizontal bars per machine, with the numbers beside them."""
    most = max(len(panel.bars) for panel in drawn.panels)
    per_step = drawn.panels[0].unit.endswith("step")
    titles = [re.sub(r", (batches|memory)", r",\n\1", panel.title) for panel in drawn.panels]
    return Drawing(
        f"Training time of each method, per {'step' if per_step else 'run'}",
        drawn.note,
        [
            Plot(title, partial(_draw, panel), panel.benchmark, variant=panel.variant)
            for title, panel in zip(titles, drawn.panels, strict=True)
        ],
        columns=3,
        size=(4.0, 1.0 + 0.2 * most),
    )


def _bar(runs: Sequence[Result]) -> Bar:
    seconds = [run.train_seconds for run in runs]
    return Bar(runs[0].method, min(seconds), max(seconds), runs[0].method_title)


def _draw(panel: TimePanel, chart: Chart) -> None:
    def words(bar: Bar) -> list[str]:
        slowest = [f"the slowest {bar.most:.4g}"] if bar.most > bar.least else []
        return [f"{bar.least:.4g} {panel.unit}", *slowest]

    chart.bars(panel.bars, words)
    chart.axes.set(xlabel=panel.unit, xlim=(0, 1.18 * max(bar.most for bar in panel.bars)))
    chart.axes.grid(axis="y", visible=False)
