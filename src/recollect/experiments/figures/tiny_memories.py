"""DER++ against ER with other rules of what to keep, at very small memories."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from recollect.errors import InputError
from recollect.experiments.figures.cells import (
    Line,
    Panel,
    Point,
    cells,
    point,
    seeds_behind,
)
from recollect.experiments.figures.look import caption, look, new_figure, title_of
from recollect.experiments.labels import SETTINGS
from recollect.train import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["TinyData", "data", "draw"]

VARIANTS = ("er-ring", "er-kmeans", "er-mof", "er-hybrid")
COMPARED = ("er", *VARIANTS, "derpp")
NAMES_OF_ER = {"er": "ER (reservoir)"}


@final
@dataclass(frozen=True)
class TinyData:
    """One panel for each benchmark and setting; x is a number of examples."""

    panels: tuple[Panel, ...]


def data(results: Iterable[Result]) -> TinyData:
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
    lines: dict[tuple[str, str], dict[str, list[Point]]] = {}
    for each in found:
        run = each.first
        # Task-IL has nothing to tell here: all are near the top.
        for setting in run.accuracy.keys() - {"task"}:
            place = point(each, setting, float(run.buffer or 0))
            if place is not None and (run.benchmark, run.buffer) in sizes:
                panel = lines.setdefault((run.benchmark, setting), {})
                panel.setdefault(run.method, []).append(place)
    return TinyData(
        tuple(
            Panel(benchmark, setting, tuple(
                Line(method, tuple(sorted(of[method], key=lambda p: p.x)))
                for method in COMPARED if method in of
            ))
            for (benchmark, setting), of in sorted(lines.items())
        )
    )  # fmt: skip


def draw(drawn: TinyData) -> Figure:
    """A panel each; points of one size stand side by side, so that their bars can be read."""
    panels = drawn.panels
    with new_figure(1, len(panels), 1.0 + 6.2 * len(panels), 4.6) as (figure, axes):
        for panel, place in zip(panels, axes, strict=True):
            for number, line in enumerate(panel.lines):
                style = look(line.method)
                shift = 1.025 ** (number - (len(panel.lines) - 1) / 2)
                place.errorbar(
                    [p.x * shift for p in line.points], [p.mean for p in line.points],
                    [p.std for p in line.points], color=style.colour, marker=style.marker,
                    linestyle=style.line, capsize=2, elinewidth=0.8,
                    label=NAMES_OF_ER.get(line.method, title_of(line.method)),
                    zorder=3 if line.method == "derpp" else 2,
                )  # fmt: skip
            sizes = sorted({p.x for line in panel.lines for p in line.points})
            place.set_xscale("log")
            place.set_xticks(sizes, [f"{size:g}" for size in sizes])
            place.minorticks_off()
            place.set_title(f"{panel.benchmark}, {SETTINGS[panel.setting]}")
            place.set_xlabel("examples in memory")
            place.set_ylabel("accuracy (%)")
        axes[0].legend(loc="upper left")
        caption(
            figure,
            "DER++ and ER with other memories, when memory is tiny",
            f"Mean and standard deviation over {seeds_behind(panels)}.",
        )
    return figure
