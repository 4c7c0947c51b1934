"""Which runs a figure shows, and their means as points, lines and panels."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from typing import final

from recollect.experiments import paper
from recollect.experiments.labels import SETTINGS, known_first, setting_title
from recollect.experiments.results import Mean, Results, Summary
from recollect.methods import METHODS
from recollect.streams import BENCHMARKS
from recollect.train import Result

__all__ = [
    "Line",
    "Panel",
    "Panels",
    "Point",
    "at",
    "buffer_and_mean",
    "cells",
    "in_order",
    "panels",
    "seeds_behind",
]


@final
@dataclass(frozen=True)
class Point:
    """A mean over seeds with its standard deviation, at a value of the horizontal axis."""

    x: float
    mean: float
    std: float
    seeds: int
    buffer: int | None = None

    def __str__(self) -> str:
        return str(Mean(self.mean, self.std, self.seeds))


@final
@dataclass(frozen=True)
class Line:
    """The points of one method, from left to right."""

    method: str
    points: tuple[Point, ...]


@final
@dataclass(frozen=True)
class Panel:
    """The methods on one benchmark in one setting."""

    benchmark: str
    setting: str
    lines: tuple[Line, ...]

    @property
    def title(self) -> str:
        """The benchmark and the setting, in words."""
        return f"{self.benchmark}, {setting_title(self.setting)}"


@final
@dataclass(frozen=True)
class Panels:
    """The data of a figure with one panel for each benchmark and setting."""

    panels: tuple[Panel, ...]

    @property
    def seeds(self) -> str:
        """How many seeds the points stand for, in words."""
        return seeds_behind(line for panel in self.panels for line in panel.lines)


def cells(results: Iterable[Result]) -> list[Summary]:
    """One summary for each benchmark, method and buffer: of tests, with the benchmark's epochs.

    Of several configurations the paper's counts, or else the one with most seeds. A seed counts
    once, however often it was run.
    """
    groups: dict[tuple[str, str, int | None], list[Summary]] = {}
    for summary in Results([run for run in results if _belongs(run)]).summaries():
        run = summary.first
        once = tuple({each.seed: each for each in reversed(summary.runs)}.values())[::-1]
        groups.setdefault((run.benchmark, run.method, run.buffer), []).append(Summary(once))
    return [max(found, key=lambda each: (_as_published(each), len(each.runs)))
            for found in groups.values()]  # fmt: skip


def panels(
    found: Iterable[Summary],
    x: Callable[[Result], float],
    metric: str = "accuracy",
    without: Container[str] = (),
) -> tuple[Panel, ...]:
    """A panel for each benchmark and setting in which runs were scored, methods in order."""
    points: dict[str, dict[str, dict[str, list[Point]]]] = {}
    for each in found:
        run = each.first
        for setting in run.accuracy:
            mean = each.mean(metric, setting)
            if mean is not None and setting not in without:
                by_method = points.setdefault(run.benchmark, {}).setdefault(setting, {})
                by_method.setdefault(run.method, []).append(at(x(run), mean, run.buffer))
    return tuple(
        Panel(benchmark, setting, tuple(
            Line(method, tuple(sorted(of[method], key=lambda point: point.x)))
            for method in in_order(of)
        ))
        for benchmark in known_first(points, BENCHMARKS)
        for setting in known_first(points[benchmark], SETTINGS)
        for of in [points[benchmark][setting]]
    )  # fmt: skip


def at(x: float, mean: Mean, buffer: int | None = None) -> Point:
    """A mean as a point."""
    return Point(x, mean.mean, mean.std, mean.seeds, buffer)


def buffer_and_mean(point: Point) -> list[str]:
    """What a point stands for, in words.

    >>> buffer_and_mean(Point(0.0, 80.25, 1.5, seeds=10, buffer=200))
    ['buffer 200', '80.25 ±1.50 over 10 seeds']
    """
    buffer = "no memory" if point.buffer is None else f"buffer {point.buffer}"
    return [buffer, f"{point} over {point.seeds} seed{'s' if point.seeds > 1 else ''}"]


def in_order(methods: Iterable[str]) -> list[str]:
    """Methods in the order of the paper's tables, each once.

    >>> in_order(["derpp", "er", "mine", "er"])
    ['er', 'derpp', 'mine']
    """
    return known_first(methods, METHODS)


def seeds_behind(lines: Iterable[Line]) -> str:
    """How many seeds the points of some lines stand for, in words.

    >>> seeds_behind([Line("er", (Point(0, 50.0, 1.0, 3), Point(1, 50.0, 1.0, 10)))])
    '3 to 10 seeds'
    """
    found = {p.seeds for line in lines for p in line.points}
    low, high = min(found), max(found)
    return f"{low} to {high} seeds" if low < high else f"{high} seed{'s' if high > 1 else ''}"


def _belongs(run: Result) -> bool:
    known = BENCHMARKS.get(run.benchmark)
    return not run.validation and (known is None or run.epochs == known.epochs)


def _as_published(summary: Summary) -> bool:
    run = summary.first
    known = BENCHMARKS.get(run.benchmark)
    if known is None:
        return False
    printed = paper.hyperparameters(known.paper, run.method, run.buffer)
    return all(run.hyperparameters.get(name) == value for name, value in printed.items())
