"""Accuracy against the bytes that a method holds besides its network."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from recollect.errors import InputError
from recollect.experiments import paper
from recollect.experiments.figures.cells import (
    Line,
    Panel,
    Point,
    cells,
    in_order,
    point,
    seeds_behind,
)
from recollect.experiments.figures.look import caption, look, new_figure, tidy, title_of
from recollect.experiments.labels import SETTINGS
from recollect.experiments.results import Summary
from recollect.streams import BENCHMARKS
from recollect.train import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["MemoryData", "data", "draw"]

BOUNDS = ("joint", "sgd")
VARIANTS = "er-"
COLUMNS = 3


@final
@dataclass(frozen=True)
class MemoryData:
    """One panel for each benchmark and setting; x is in bytes."""

    panels: tuple[Panel, ...]


def data(results: Iterable[Result]) -> MemoryData:
    """Every method with every buffer, at the bytes of its actual state.

    They are counted from the tensors of a run after its last task (`memory_bytes`): what it
    remembers, what the method keeps of its own, and what its network has grown by. ER's other
    memories, and buffers that only they are compared at, have a figure of their own.
    """
    found = [each for each in cells(results) if _shown(each)]
    if not any(each.first.memory_bytes for each in found):
        raise InputError(
            "no results of methods that hold anything: run recollect reproduce BENCHMARK first"
        )
    names = list(BENCHMARKS)
    benchmarks = sorted(
        dict.fromkeys(each.first.benchmark for each in found),
        key=lambda name: names.index(name) if name in names else len(names),
    )
    return MemoryData(
        tuple(
            Panel(name, setting, _lines([s for s in found if s.first.benchmark == name], setting))
            for name in benchmarks
            for setting in SETTINGS
            if any(setting in s.first.accuracy for s in found if s.first.benchmark == name)
        )
    )


def draw(drawn: MemoryData) -> Figure:
    """A panel each; SGD and JOINT, which hold nothing, are lines across."""
    rows = -(-(len(drawn.panels) + 1) // COLUMNS)
    with new_figure(rows, COLUMNS, 11, 3.5 * rows + 0.6) as (figure, axes):
        labels: dict[str, Any] = {}
        for panel, place in zip(drawn.panels, axes, strict=False):
            labels |= _draw_panel(panel, place)
        spare = axes[len(drawn.panels) :]
        tidy(spare)
        spare[0].legend(
            [labels[method] for method in in_order(labels)],
            [title_of(method) for method in in_order(labels)],
            loc="center", ncols=2, title="method",
        )  # fmt: skip
        caption(
            figure,
            "Accuracy against the bytes that a method holds",
            f"Bytes are counted from the state of a run after its last task, without the network "
            f"that all share. Joined points: growing buffers.\n"
            f"Mean and standard deviation over {seeds_behind(drawn.panels)}.",
        )  # fmt: skip
    return figure


def _shown(summary: Summary) -> bool:
    run = summary.first
    known = BENCHMARKS.get(run.benchmark)
    usual = paper.buffers(known.paper, "er") if known and known.stands_in is None else ()
    tiny = run.buffer is not None and bool(usual) and run.buffer < min(usual)
    return not (run.method.startswith(VARIANTS) or tiny)


def _lines(found: list[Summary], setting: str) -> tuple[Line, ...]:
    by_method: dict[str, list[Point]] = {}
    for each in found:
        place = point(each, setting, float(each.first.memory_bytes))
        if place is not None:
            by_method.setdefault(each.first.method, []).append(place)
    return tuple(
        Line(method, tuple(sorted(by_method[method], key=lambda p: p.x)))
        for method in in_order(by_method)
    )


def _draw_panel(panel: Panel, axes: Axes) -> dict[str, Any]:
    from matplotlib.ticker import LogLocator, NullFormatter

    drawn: dict[str, Any] = {}
    for line in panel.lines:
        style, first = look(line.method), line.points[0]
        if line.method in BOUNDS:
            drawn[line.method] = axes.axhline(
                first.mean, color=style.colour, linestyle=style.line, linewidth=1.2
            )
            continue
        drawn[line.method] = axes.errorbar(
            [p.x for p in line.points], [p.mean for p in line.points],
            [p.std for p in line.points], color=style.colour, marker=style.marker,
            linestyle=style.line, capsize=2, elinewidth=0.8,
            zorder=3 if line.method in ("der", "derpp") else 2,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(lambda value, _: _bytes(value))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_title(f"{panel.benchmark}, {SETTINGS[panel.setting]}")
    axes.set_xlabel("held besides the network")
    axes.set_ylabel("accuracy (%)")
    return drawn


def _bytes(value: float) -> str:
    """Bytes in a few letters.

    >>> _bytes(200_000), _bytes(4_000_000), _bytes(900)
    ('200 kB', '4 MB', '900 B')
    """
    for size, unit in ((1e6, "MB"), (1e3, "kB")):
        if value >= size:
            return f"{value / size:g} {unit}"
    return f"{value:g} B"
