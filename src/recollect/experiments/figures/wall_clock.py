"""What training costs with each method, in time."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

from recollect.errors import DataError, InputError
from recollect.experiments.figures.cells import in_order
from recollect.experiments.figures.look import caption, look, new_figure, title_of
from recollect.methods import METHODS
from recollect.train import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Bar", "TimePanel", "WallClockData", "data", "draw", "from_bench"]

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


@final
@dataclass(frozen=True)
class TimePanel:
    """Methods that were timed on one machine in one way."""

    title: str
    unit: str
    bars: tuple[Bar, ...]


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
        if not run.validation and not run.method.startswith(VARIANTS):
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
            ))
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


def draw(drawn: WallClockData) -> Figure:
    """Bars from left to right, a panel for each machine; the numbers stand beside them."""
    most = max(len(panel.bars) for panel in drawn.panels)
    count = len(drawn.panels)
    with new_figure(1, count, 1.0 + 4 * count, 1.9 + 0.2 * most) as (figure, axes):
        for panel, place in zip(drawn.panels, axes, strict=True):
            _draw_panel(panel, place)
        caption(figure, "What training costs with each method", drawn.note)
    return figure


def _draw_panel(panel: TimePanel, axes: Axes) -> None:
    longest = max(bar.most for bar in panel.bars)
    for place, bar in enumerate(panel.bars):
        axes.barh(place, bar.least, color=look(bar.method).colour, height=0.72)
        axes.plot([bar.least, bar.most], [place, place], color="#444444", linewidth=0.9)
        digits = ".0f" if bar.least >= 100 else ".3g"
        axes.annotate(
            f"{bar.least:{digits}}", (bar.most, place), xytext=(4, 0), fontsize=7.5,
            textcoords="offset points", va="center", color="#333333",
        )  # fmt: skip
    axes.set_yticks(range(len(panel.bars)), [title_of(bar.method) for bar in panel.bars])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.18 * longest)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(panel.unit)
    axes.set_title(re.sub(r", (batches|memory)", r",\n\1", panel.title))
