"""Figures with a panel for each benchmark and setting: memory, tiny memories, and transfer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import final

from recollect.errors import InputError
from recollect.experiments import paper
from recollect.experiments.figures.chart import Chart
from recollect.experiments.figures.drawing import Drawing, Plot
from recollect.experiments.figures.runs import (
    Material,
    Panel,
    Panels,
    Point,
    buffer_and_mean,
    panels,
    seeds_behind,
)
from recollect.experiments.labels import SCORE_TITLES, known_first
from recollect.experiments.results import Summary
from recollect.streams import BENCHMARKS
from recollect.train import Result

VARIANTS = ("er-ring", "er-kmeans", "er-mof", "er-hybrid")
COMPARED = ("er", *VARIANTS, "derpp")
NAMES_OF_ER = {"er": "ER (reservoir)"}
METRICS = ("forgetting", "bwt", "fwt")


@final
@dataclass(frozen=True)
class ScorePanels:
    """Panels of one score by benchmark and setting; x is a number of examples."""

    metric: str
    panels: tuple[Panel, ...]


@final
@dataclass(frozen=True)
class TransferData:
    """Panels of every score that was measured."""

    scores: tuple[ScorePanels, ...]


def memory(material: Material) -> Panels:
    """Compute the accuracy of every method and buffer against the bytes it stores.

    Bytes are counted from the tensors of a run after its last task (`memory_bytes`): stored
    examples, the method's state, and parameters added to its network. ER's memory variants, and
    buffer sizes used only for them, have a separate figure.
    """
    found = [each for each in material.cells if _in_memory_figure(each)]
    if not any(each.first.memory_bytes for each in found):
        raise InputError(
            "no results of methods with a memory: run recollect reproduce BENCHMARK first"
        )
    return Panels(
        tuple(
            panel
            for panel in panels(found, lambda run: float(run.memory_bytes))
            if any(point.x > 0 for line in panel.lines for point in line.points)
        )
    )


def draw_memory(drawn: Panels) -> Drawing:
    """Draw one plot per panel; methods without a memory are horizontal lines."""
    return Drawing(
        "Accuracy against the bytes that a method stores",
        "Bytes are counted from the state of a run after its last task, without the network that "
        "all share.\nConnected points: growing buffers. Dashed and dotted horizontal lines: methods"
        f" that store nothing. Mean and standard deviation over {_seeds(drawn.panels)}.",
        [Plot.of(panel, _bytes_panel) for panel in drawn.panels],
        columns=3,
        size=(3.7, 3.4),
    )


def tiny_memories(material: Material) -> Panels:
    """Compute the accuracy of ER, its variants and DER++ at the buffer sizes of the variants."""
    found = [each for each in material.cells if each.first.method in COMPARED]
    sizes = {
        (each.first.benchmark, each.first.buffer) for each in found if each.first.method in VARIANTS
    }
    if not sizes:
        raise InputError(
            "no results of ER's memory variants: run recollect run seq-mnist METHOD --buffer 10 20 "
            "50 100 for er, er-ring, er-kmeans, er-mof, er-hybrid and derpp first"
        )
    compared = [each for each in found if (each.first.benchmark, each.first.buffer) in sizes]
    made = []
    for panel in panels(compared, _examples):
        if panel.setting != "task":  # in Task-IL all methods are near the top
            lines = {line.method: line for line in panel.lines}
            ordered = tuple(lines[method] for method in known_first(lines, COMPARED))
            made.append(replace(panel, lines=ordered))
    return Panels(tuple(made))


def draw_tiny_memories(drawn: Panels) -> Drawing:
    """Draw one plot per panel."""
    return Drawing(
        "DER++ and ER with tiny memories",
        "Accuracy after the last task, with the buffer sizes of ER's memory variants. "
        f"Mean and standard deviation over {_seeds(drawn.panels)}.",
        [Plot.of(panel, _sizes_panel) for panel in drawn.panels],
        columns=2,
        size=(5.8, 4.2),
    )


def transfer(material: Material) -> TransferData:
    """Compute forward transfer, backward transfer and forgetting of every method and buffer."""
    made = [ScorePanels(each, panels(material.cells, _examples, each)) for each in METRICS]
    if not any(score.panels for score in made):
        raise InputError(
            "no results with transfer or forgetting: run recollect reproduce BENCHMARK first, for "
            "a benchmark with several tasks"
        )
    return TransferData(tuple(score for score in made if score.panels))


def draw_transfer(drawn: TransferData) -> Drawing:
    """Draw one row per method and one marker per buffer."""
    shown = [panel for score in drawn.scores for panel in score.panels]
    plots = []
    for score in drawn.scores:
        title = SCORE_TITLES[score.metric]
        draw = partial(_score_panel, title)
        plots += [Plot.of(panel, draw, view=title) for panel in score.panels]
    return Drawing(
        "Forgetting and transfer",
        "The larger the buffer, the larger the mark. Less forgetting and more transfer are better. "
        f"Mean and standard deviation over {_seeds(shown)}.",
        plots,
        columns=3,
        size=(3.8, 1.0 + 0.2 * max(len(panel.lines) for panel in shown)),
    )


def _in_memory_figure(summary: Summary) -> bool:
    run = summary.first
    known = BENCHMARKS.get(run.benchmark)
    usual = paper.buffers(known.paper, "er") if known and known.stands_in is None else ()
    tiny = run.buffer is not None and bool(usual) and run.buffer < min(usual)
    return run.method not in VARIANTS and not tiny


def _seeds(shown: Iterable[Panel]) -> str:
    return seeds_behind(panel.lines for panel in shown)


def _examples(run: Result) -> float:
    return float(run.buffer or 0)


def _bytes_panel(panel: Panel, chart: Chart) -> None:
    chart.log_scale("x", partial(_bytes, digits=6))
    for line in panel.lines:
        stored = tuple(point for point in line.points if point.x > 0)
        if stored:
            chart.line(replace(line, points=stored), _bytes_words)
        for point in line.points:
            if point.x == 0:
                chart.level(line, point, _bytes_words)
    chart.axes.set(xlabel="stored besides the network", ylabel="accuracy (%)")


def _bytes_words(point: Point) -> list[str]:
    return [*buffer_and_mean(point), f"{_bytes(point.x)} stored"]


def _bytes(value: float, digits: int = 3) -> str:
    """Format a number of bytes.

    >>> _bytes(200_000), _bytes(4_000_000), _bytes(166_400)
    ('200 kB', '4 MB', '166 kB')
    """
    for size, unit in ((1e6, "MB"), (1e3, "kB")):
        if value >= size:
            return f"{value / size:.{digits}g} {unit}"
    return f"{value:g} B"


def _sizes_panel(panel: Panel, chart: Chart) -> None:
    sizes = sorted({p.x for line in panel.lines for p in line.points})
    chart.log_scale("x", lambda size: f"{size:g}", at=sizes)
    for number, line in enumerate(panel.lines):
        # Points at the same size are offset horizontally, so that their error bars do not overlap.
        shift = 1.025 ** (number - (len(panel.lines) - 1) / 2)
        aside = tuple(replace(p, x=p.x * shift) for p in line.points)
        title = NAMES_OF_ER.get(line.method, "")
        chart.line(replace(line, points=aside), buffer_and_mean, title=title)
    chart.axes.set(xlabel="examples in memory", ylabel="accuracy (%)")


def _score_panel(title: str, panel: Panel, chart: Chart) -> None:
    chart.dots(panel.lines, buffer_and_mean)
    chart.axes.set_xlabel(f"{title} (%)")
