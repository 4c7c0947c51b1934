"""Forward transfer, backward transfer and forgetting of each method."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import final

from recollect.errors import InputError
from recollect.experiments.figures.chart import Chart
from recollect.experiments.figures.drawing import Drawing, Plot
from recollect.experiments.figures.runs import Panel, buffer_and_mean, cells, panels, seeds_behind
from recollect.experiments.labels import SCORE_TITLES
from recollect.train import Result

__all__ = ["ScorePanels", "TransferData", "data", "drawing"]

METRICS = ("forgetting", "bwt", "fwt")


@final
@dataclass(frozen=True)
class ScorePanels:
    """One score: a panel for each benchmark and setting; x is a number of examples."""

    metric: str
    panels: tuple[Panel, ...]


@final
@dataclass(frozen=True)
class TransferData:
    """Every score that was measured."""

    scores: tuple[ScorePanels, ...]


def data(results: Iterable[Result]) -> TransferData:
    """Every method with every buffer."""
    found = cells(results)
    made = [
        ScorePanels(metric, panels(found, lambda run: float(run.buffer or 0), metric))
        for metric in METRICS
    ]
    if not any(score.panels for score in made):
        raise InputError(
            "no results with transfer or forgetting: run recollect reproduce BENCHMARK first, for "
            "a benchmark with several tasks"
        )
    return TransferData(tuple(score for score in made if score.panels))


def drawing(drawn: TransferData) -> Drawing:
    """A row for each method, a mark for each buffer."""
    every = [(score.metric, panel) for score in drawn.scores for panel in score.panels]
    lines = [line for _, panel in every for line in panel.lines]
    most = max(len(panel.lines) for _, panel in every)
    return Drawing(
        "Forgetting and transfer",
        "The larger the buffer, the larger the mark. Less forgetting and more transfer are better. "
        f"Mean and standard deviation over {seeds_behind(lines)}.",
        [
            Plot(
                panel.title,
                partial(_draw, metric, panel),
                panel.benchmark,
                view=SCORE_TITLES[metric],
                rows=len(panel.lines),
            )
            for metric, panel in every
        ],
        columns=3,
        size=(3.8, 1.0 + 0.2 * most),
    )


def _draw(metric: str, panel: Panel, chart: Chart) -> None:
    chart.rows([line.method for line in panel.lines])
    for row, line in enumerate(panel.lines):
        chart.dots(row, line, buffer_and_mean)
    chart.axes.set_xlabel(f"{SCORE_TITLES[metric]} (%)")
