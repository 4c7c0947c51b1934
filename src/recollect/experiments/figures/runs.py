"""Select the runs of a figure, and compute their means as points, lines and panels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import final

from recollect.errors import InputError
from recollect.experiments.choices import choices
from recollect.experiments.labels import (
    SETTINGS,
    counted,
    known_first,
    meaningful,
    of_classes,
    setting_title,
)  # fmt: skip
from recollect.experiments.reproduce import stream_or_stand_in
from recollect.experiments.results import Mean, Results, Summary
from recollect.methods import METHODS
from recollect.streams import BENCHMARKS, Benchmark, Stream, benchmark, twin
from recollect.streams.data import look
from recollect.train import Result


@final
@dataclass(frozen=True)
class Material:
    """Input of figures: results, or the options for training."""

    results: Sequence[Result] = ()
    bench: Path | None = None
    folder: Path | None = None
    seeds: Sequence[int] = range(5)
    report: Callable[[str], None] = lambda text: None

    @cached_property
    def cells(self) -> list[Summary]:
        """One summary for each benchmark, method and buffer, on the test set with default epochs.

        Of several configurations one is selected (see `choices`). `Summary.apart` distinguishes
        networks and data that share a benchmark's name. Each seed counts once, even if repeated.
        """
        found = Results([run for run in self.results if _belongs(run)]).summaries()
        once = [
            Summary(tuple({run.seed: run for run in reversed(each.runs)}.values())[::-1])
            for each in found
        ]
        return [replace(choice.shown, apart=choice.variant) for choice in choices(once)]

    def stream(self, name: str) -> tuple[Benchmark, Stream]:
        """Return a benchmark and its stream, or those of its substitute."""
        known = benchmark(name)
        # Photographs have no substitute, and are too large to download for a figure.
        if twin(known) is None and look(known.dataset, self.folder).where == "not here":
            raise InputError(
                f"the data of {name} are not available: run recollect data fetch {known.dataset}"
            )
        return stream_or_stand_in(known, self.folder, self.report)


@final
@dataclass(frozen=True)
class Point:
    """Mean and standard deviation over seeds, at a value of the x axis."""

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
    """Points of one method, from left to right."""

    method: str
    points: tuple[Point, ...]
    title: str = ""  # title of a custom method


@final
@dataclass(frozen=True)
class Panel:
    """Lines of all methods on one benchmark in one setting."""

    benchmark: str
    setting: str
    lines: tuple[Line, ...]
    variant: str = ""

    @property
    def title(self) -> str:
        """Title: benchmark, setting, and the network or data if there are several."""
        return ", ".join(filter(None, (self.benchmark, setting_title(self.setting), self.variant)))


@final
@dataclass(frozen=True)
class Panels:
    """Data of a figure with one panel for each benchmark and setting."""

    panels: tuple[Panel, ...]


def by_panel(found: Iterable[Summary]) -> Iterator[tuple[Panel, dict[str, list[Summary]]]]:
    """Return an empty panel per benchmark, variant and setting, with its summaries by method."""
    groups: dict[str, dict[str, dict[str, dict[str, list[Summary]]]]] = {}
    for each in found:
        run = each.first
        for setting in meaningful(run.accuracy):
            group = groups.setdefault(run.benchmark, {}).setdefault(each.apart, {})
            group.setdefault(setting, {}).setdefault(run.method, []).append(each)
    for name in known_first(groups, BENCHMARKS):
        for variant, by_setting in groups[name].items():
            for setting in known_first(by_setting, SETTINGS):
                of = by_setting[setting]
                yield (
                    Panel(name, setting, (), variant),
                    {method: of[method] for method in known_first(of, METHODS)},
                )


def panels(
    found: Iterable[Summary], x: Callable[[Result], float], metric: str = "accuracy"
) -> tuple[Panel, ...]:
    """Build one panel for each benchmark and setting in which this score was measured."""
    made = []
    for panel, of in by_panel(found):
        lines = []
        for method, summaries in of.items():
            points = [
                at(x(each.first), mean, each.first.buffer)
                for each in summaries
                if (mean := each.mean(metric, panel.setting))
            ]
            if points:
                ordered = tuple(sorted(points, key=lambda point: point.x))
                lines.append(Line(method, ordered, summaries[0].first.method_title))
        if lines:
            made.append(replace(panel, lines=tuple(lines)))
    return tuple(made)


def at(x: float, mean: Mean, buffer: int | None = None) -> Point:
    """Convert a mean to a point."""
    return Point(x, mean.mean, mean.std, mean.seeds, buffer)


def buffer_and_mean(point: Point) -> list[str]:
    """Describe a point, for its tooltip.

    >>> buffer_and_mean(Point(0.0, 80.25, 1.5, seeds=10, buffer=200))
    ['buffer 200', '80.25 ±1.50 over 10 seeds']
    """
    buffer = "no memory" if point.buffer is None else f"buffer {point.buffer}"
    return [buffer, f"{point} over {counted(point.seeds, 'seed')}"]


def seeds_behind(panels: Iterable[Iterable[Line]]) -> str:
    """Describe the number of seeds behind the points of some panels.

    >>> seeds_behind([[Line("er", (Point(0, 50.0, 1.0, 3), Point(1, 50.0, 1.0, 10)))]])
    '3 to 10 seeds'
    """
    found = {point.seeds for lines in panels for line in lines for point in line.points}
    low, high = min(found), max(found)
    return f"{low} to {high} seeds" if low < high else counted(high, "seed")


def _belongs(run: Result) -> bool:
    known = BENCHMARKS.get(run.benchmark)
    usual = not run.validation and (known is None or run.epochs == known.epochs)
    return usual and of_classes(run)
