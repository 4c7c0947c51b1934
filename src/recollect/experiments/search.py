"""The search for hyper-parameters: many configurations on the validation split, as fleets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from recollect.errors import InputError
from recollect.experiments import paper
from recollect.experiments.plan import Plan, fleets_of, points_of
from recollect.experiments.results import Mean, Results, Summary
from recollect.experiments.values import axes_of, checked_buffer, checked_epochs
from recollect.methods import Method, hyperparameters, symbol
from recollect.streams import Benchmark
from recollect.train import Result

__all__ = ["Tried", "by_criterion", "criterion", "grid", "points_of", "searched"]

Point = Mapping[str, float]


@final
@dataclass(frozen=True)
class Tried:
    """A configuration, and how it did on the validation split."""

    values: Mapping[str, float]
    score: Mean
    summary: Summary


def criterion(run: Result) -> float:
    """What the paper chooses by: the mean over its settings of the final average accuracy."""
    return sum(run.accuracy.values()) / len(run.accuracy)


def by_criterion(results: Results) -> list[Tried]:
    """The configurations of some results, best first; of two alike, the one that came first."""
    tried = []
    for summary in results.summaries():
        score = Mean.of([criterion(run) for run in summary.runs])
        assert score is not None
        tried.append(Tried(summary.first.hyperparameters, score, summary))
    return sorted(tried, key=lambda one: -one.score.mean)


def grid(
    benchmark: Benchmark, kind: type[Method], given: Mapping[str, Sequence[float]] | None = None
) -> dict[str, list[float]]:
    """The values to try: the paper's for a benchmark and method, and those given instead."""
    space = paper.search_space(benchmark.paper, kind.name)
    if not space and not given:
        raise InputError(
            f"the paper has no grid for {kind.title} on {benchmark.paper}: give values to try, "
            f"such as --lr 0.03 0.1"
        )
    names = {symbol(name) for name in hyperparameters(kind)} | {"lr", "bs", "mbs"}
    known = {name: values for name, values in space.items() if name in names}
    return {**known, **{name: list(values) for name, values in (given or {}).items()}}


def searched(
    kind: type[Method],
    points: Sequence[Point],
    *,
    benchmark: Benchmark,
    buffer: int | None,
    seeds: Sequence[int],
    epochs: int | None = None,
    validation: bool = True,
) -> Plan:
    """The plan that tries these points, each with every seed; as few fleets as shapes allow."""
    size = checked_buffer(kind, buffer)
    complete = [
        {name: values[0] for name, values in axes_of(kind, benchmark, size, point).items()}
        for point in points
    ]
    count = checked_epochs(epochs, benchmark)
    return Plan(fleets_of(kind, complete, seeds), size, count, validation, benchmark.network)
