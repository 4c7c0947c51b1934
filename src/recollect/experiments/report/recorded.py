"""Curves and confusion matrices of runs that recorded them, for the report."""

from __future__ import annotations

import colorsys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from recollect.errors import MissingExtraError
from recollect.experiments.figures import check_matplotlib
from recollect.experiments.figures.chart import Chart, Style, style_of
from recollect.experiments.figures.curves import (
    Values,
    alike,
    draw_axes,
    losses,
    mean_accuracy,
    mean_line,
    task_ends,
    words,
)
from recollect.experiments.figures.drawing import Drawing, Plot, pictures
from recollect.experiments.labels import meaningful, setting_title
from recollect.experiments.report.page import packed
from recollect.experiments.results import Summary
from recollect.train import Result
from recollect.train.curves import Curves

MEAN = "mean"
THIN = 0.9
WHITE = 255
PALE = 0.5  # fraction of white in the line of a seed


def recorded_by(run: Result) -> list[str]:
    """Return which details a run recorded: `curves`, `confusion`."""
    return [name for name in ("curves", "confusion") if getattr(run, name) is not None]


def recorded(found: Mapping[str, Summary]) -> str:
    """Return plots of curves and confusion matrices by configuration, packed.

    Curves are drawn as in figures, and omitted without matplotlib. Confusion matrices are counts by
    setting and seed.
    """
    try:
        check_matplotlib()
        draw = True
    except MissingExtraError:
        draw = False
    made: dict[str, dict[str, Any]] = {}
    for name, each in found.items():
        asked = {kind for run in each.runs for kind in recorded_by(run)}
        if "curves" in asked and draw:
            made.setdefault(name, {})["curves"] = pictures(
                Drawing("", "", [*_plots(each)], columns=2, size=(3.6, 2.8))
            )
        if "confusion" in asked:
            made.setdefault(name, {})["confusion"] = _counts(each)
    return packed(made) if made else ""


def _counts(each: Summary) -> dict[str, dict[int, Sequence[Sequence[int]]]]:
    counts = {run.seed: run.confusion for run in each.runs if run.confusion is not None}
    settings = dict.fromkeys(s for by_setting in counts.values() for s in meaningful(by_setting))
    return {s: {seed: of[s] for seed, of in counts.items() if s in of} for s in settings}


def _plots(each: Summary) -> Iterator[Plot]:
    """Yield, for each setting, plots of the mean over tasks and of single tasks; then the loss."""
    first, count = alike(each)[0], len(alike(each))
    over = f", mean of {count} seeds" if count > 1 else ""
    for setting in meaningful(first.accuracy):
        title = setting_title(setting)
        mean = partial(mean_accuracy, setting=setting)
        yield Plot(f"{title}: mean of the tasks so far", partial(_draw_seeds, each, mean))
        tasks = max(map(len, first.accuracy[setting]))
        if tasks > 1:
            draw = partial(_draw_tasks, each, setting, tasks)
            yield Plot(f"{title}: accuracy on each task{over}", draw)
    yield Plot("Training loss", partial(_draw_seeds, each, losses, loss=True))


def _draw_seeds(each: Summary, values: Values, chart: Chart, *, loss: bool = False) -> None:
    """Draw a thin line for each seed, and their mean."""
    runs = [run for run in each.runs if run.curves is not None]
    several = len(runs) > 1
    style = replace(style_of(each.first.method), line="-")
    thin = Style(_paler(style.colour), width=THIN) if several else style
    for run in runs:
        key = f"seed {run.seed}"
        line = mean_line(Summary((run,)), values, key, title=key)
        if line.points:
            chart.line(line, words, markers=False, style=thin)
    count = len(alike(each))
    mean = mean_line(each, values, MEAN, title=f"mean of {count} seeds; thin lines: each seed")
    chart.legend.clear()
    if several and count > 1 and mean.points:
        chart.line(mean, words, spread=False, markers=False, style=style)
    draw_axes(chart, task_ends(alike(each)[0]), loss=loss)


def _draw_tasks(each: Summary, setting: str, tasks: int, chart: Chart) -> None:
    """Draw a line for each task, from blue for the first to red for the last."""
    for task in range(tasks):
        red, green, blue = colorsys.hls_to_rgb(0.62 * (1 - task / (tasks - 1)), 0.42, 0.72)
        colour = f"#{round(WHITE * red):02x}{round(WHITE * green):02x}{round(WHITE * blue):02x}"
        key = f"task {task + 1}"
        line = mean_line(each, partial(_on_task, setting=setting, task=task), key, title=key)
        if line.points:
            chart.line(line, words, band=True, markers=False, style=Style(colour))
    draw_axes(chart, task_ends(alike(each)[0]), loss=False)


def _on_task(curves: Curves, setting: str, task: int) -> list[float | None]:
    """Return the accuracy on one task at every point; None before it begins."""
    rows = curves.accuracy.get(setting, [()] * len(curves.steps))
    return [row[task] if len(row) > task else None for row in rows]


def _paler(colour: str) -> str:
    """Mix a colour with white.

    >>> _paler("#c00000")
    '#e08080'
    """
    parts = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return "#" + "".join(f"{round(part + (WHITE - part) * PALE):02x}" for part in parts)
