"""Which runs stand behind a point of a figure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

from recollect.experiments import paper
from recollect.experiments.results import Mean, Results, Summary
from recollect.methods import METHODS
from recollect.streams import BENCHMARKS
from recollect.train import Result

__all__ = ["Line", "Panel", "Point", "at", "cells", "in_order", "point", "seeds_behind"]


@final
@dataclass(frozen=True)
class Point:
    """A mean over seeds with its standard deviation, at some place of the horizontal axis."""

    x: float
    mean: float
    std: float
    seeds: int


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


def cells(results: Iterable[Result]) -> list[Summary]:
    """One summary for each benchmark, method and buffer: of tests, with the benchmark's epochs.

    Where runs with several configurations are there, those with the paper's count, or else those
    with most seeds. A seed counts once, however often it was run.
    """
    groups: dict[tuple[str, str, int | None], list[Summary]] = {}
    for summary in Results([run for run in results if _belongs(run)]).summaries():
        run = summary.first
        once = tuple({each.seed: each for each in reversed(summary.runs)}.values())[::-1]
        groups.setdefault((run.benchmark, run.method, run.buffer), []).append(Summary(once))
    return [max(found, key=lambda each: (_as_published(each), len(each.runs)))
            for found in groups.values()]  # fmt: skip


def point(summary: Summary, setting: str, x: float) -> Point | None:
    """The accuracy of these runs in a setting; None if they were not scored in it."""
    mean = summary.mean("accuracy", setting)
    return None if mean is None else at(x, mean)


def at(x: float, mean: Mean) -> Point:
    """A mean at its place."""
    return Point(x, mean.mean, mean.std, mean.seeds)


def in_order(methods: Iterable[str]) -> list[str]:
    """Methods in the order of the paper's tables, each once.

    >>> in_order(["derpp", "er", "mine", "er"])
    ['er', 'derpp', 'mine']
    """
    known = list(METHODS)
    rank = {name: place for place, name in enumerate(known)}
    return sorted(dict.fromkeys(methods), key=lambda name: rank.get(name, len(known)))


def seeds_behind(panels: Iterable[Panel]) -> str:
    """How many seeds the points of some panels stand for, in words."""
    found = {p.seeds for panel in panels for line in panel.lines for p in line.points}
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
