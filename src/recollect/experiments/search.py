"""Hyper-parameter search: score configurations on the validation split, test the best one.

A grid search trains all configurations as fleets; a Bayesian search with Optuna trains batches of
trials.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import final

from recollect.errors import InputError
from recollect.experiments.bayes import bayesian
from recollect.experiments.labels import setting_title
from recollect.experiments.networks import Network
from recollect.experiments.plan import Plan, plan, points_of
from recollect.experiments.recorder import StorePath, recorder
from recollect.experiments.results import Mean, Results, Summary
from recollect.experiments.run import kind_and_values, known_benchmark, stream_of
from recollect.experiments.values import OPTIONS, Values, axes_of, checked_seeds, search_space
from recollect.methods import (
    Method,
    check_name,
    hyperparameters,
    omitted_defaults,
    static,
    symbol,
)
from recollect.streams import Benchmark, Stream
from recollect.train import Result, device_named, train_all
from recollect.train.devices import in_half
from recollect.train.optimisation import Optimisation

__all__ = [
    "Search",
    "Tried",
    "agrees",
    "by_criterion",
    "criterion",
    "grid",
    "said",
    "search",
    "searched",
]

SHOWN = 10
CHOSEN_BY = {
    "rmse": -1,
    "f1": 1,
}  # of other targets than classes; -1: lower is better


def search(
    benchmark: str | Stream,
    method: str | Method | type[Method],
    *,
    buffer: int | None = None,
    trials: int | None = None,
    seeds: int | Iterable[int] = 10,
    search_seeds: int | Iterable[int] = 1,
    epochs: int | None = None,
    class_order: int | str | None = None,
    network: Network | None = None,
    data_dir: Path | str | None = None,
    workers: int | None = None,
    device: str = "auto",
    precision: str = "auto",
    store: StorePath = None,
    optimiser: str = "SGD",
    nesterov: bool = False,
    schedule: str = "constant",
    schedule_per: str = "stream",
    **hyperparameters: float | Iterable[float],
) -> Search:
    """Search hyper-parameters on the validation split, and evaluate the best on the test set.

    This is the paper's protocol, as in the command `recollect search`. Each configuration trains
    with `search_seeds` and is scored on the validation split by its mean accuracy over settings.
    The best one then trains on all training examples with `seeds`, and is evaluated on the test
    set.

    Lists of values are tried in all combinations. With `trials`, Optuna instead chooses that many
    points between the smallest and largest value of each list. Hyper-parameters that are not given
    default to the paper's search grid on a benchmark, and to the method's defaults on a custom
    stream. The other arguments are those of `recollect.run`.

    >>> found = search("seq-digits", "er", buffer=50, lr=[0.001, 0.1], seeds=2, workers=1)
    >>> found.best, len(found.tried), len(found.results)
    ({'lr': 0.1}, 2, 2)
    """
    kind, own = kind_and_values(method)
    _check_own(kind, hyperparameters)
    known, where = known_benchmark(benchmark), device_named(device)
    half = in_half(precision, where)
    numbers, few = checked_seeds(seeds), checked_seeds(search_seeds)
    names = Optimisation(optimiser, nesterov, schedule, schedule_per)
    axes = _axes(kind, known, buffer, {**own, **hyperparameters}, names)
    planned = partial(plan, kind, benchmark=known, buffer=buffer, epochs=epochs, optimisation=names)
    planned(values=points_of(axes), seeds=few)  # validate before loading data
    split, tests = (stream_of(benchmark, held, data_dir, class_order) for held in (True, False))
    recording = recorder(store)
    if recording.store:
        check_name(kind)

    def train(chosen: Plan, stream: Stream) -> Results:
        jobs = chosen.jobs(stream, network, where, half)
        return recording.results(train_all(jobs, workers=workers, store=recording))

    return searched(
        kind,
        axes,
        trials,
        lambda points: train(planned(values=points, seeds=few, validation=True), split),
        lambda best: train(planned(values=best, seeds=numbers), tests),
    )


@final
@dataclass(frozen=True)
class Search:
    """Result of a hyper-parameter search.

    `best` has the best values of the searched hyper-parameters, `tried` all configurations with
    their validation scores, best first. `validation` has the runs on the validation split, and
    `results` the runs of the best configuration on the test set.
    """

    best: Mapping[str, float]
    tried: Sequence[Tried]
    validation: Results
    results: Results

    def __str__(self) -> str:
        """Format the ranking on the validation split, and the result on the test set."""
        lines = [
            f"{rank}. {said({name: one.values[name] for name in self.best})}: {one}"
            for rank, one in enumerate(self.tried[:SHOWN], 1)
        ]
        more = len(self.tried) - SHOWN
        lines += [f"and {more} more"] if more > 0 else []
        return "\n".join(
            ["on the validation split:", *lines, "on the test set:", str(self.results)]
        )


def searched(
    kind: type[Method],
    axes: Mapping[str, Sequence[float]],
    trials: int | None,
    validate: Callable[[Sequence[Mapping[str, float]]], Results],
    test: Callable[[Mapping[str, float]], Results],
) -> Search:
    """Search over `axes`: `validate` scores points, `test` evaluates the best one."""
    found: list[Result] = []
    left_out = omitted_defaults(kind)

    def scores(points: Sequence[Mapping[str, float]]) -> list[float]:
        results = validate(points)
        found.extend(results)
        return [
            fmean(
                criterion(run)
                for run in results
                if agrees({**left_out, **run.hyperparameters}, point)
            )
            for point in points
        ]

    if trials is None:
        scores(points_of(axes))
    else:
        bayesian(axes, trials, scores, whole={"bs", "mbs", *map(symbol, static(kind))})
    ranked = [
        replace(each, values={**left_out, **each.values}) for each in by_criterion(Results(found))
    ]
    best = {name: ranked[0].values[name] for name in axes}
    return Search(best, ranked, Results(found), test(best))


def agrees(values: Mapping[str, float], some: Mapping[str, float]) -> bool:
    """Return True if `values` contains all entries of `some`."""
    return all(values.get(name) == value for name, value in some.items())


def said(values: Mapping[str, float]) -> str:
    """Format hyper-parameter values in words.

    >>> said({"lr": 0.1, "lambda_": 2.0})
    'lr 0.1, lambda 2'
    """
    return ", ".join(f"{symbol(name)} {value:g}" for name, value in values.items())


@final
@dataclass(frozen=True)
class Tried:
    """Configuration with its score on the validation split; a higher `score` is better."""

    values: Mapping[str, float]
    score: Mean
    summary: Summary

    def __str__(self) -> str:
        """Format the score, or the measure behind it, such as the RMSE."""
        for measure in CHOSEN_BY.keys() & self.summary.first.accuracy.keys():
            return f"{setting_title(measure)} {self.summary.mean('accuracy', measure)}"
        return str(self.score)


def criterion(run: Result) -> float:
    """Selection criterion of the paper: final average accuracy, averaged over settings.

    For regression it is the negative RMSE, for multi-label classification F1.
    """
    for measure, sign in CHOSEN_BY.items():
        if measure in run.accuracy:
            return sign * run.accuracy[measure]
    return sum(run.accuracy.values()) / len(run.accuracy)


def by_criterion(results: Results) -> list[Tried]:
    """Rank the configurations of some results, best first; ties stay in order."""
    tried = []
    for summary in results.summaries():
        score = Mean.of([criterion(run) for run in summary.runs])
        assert score is not None
        tried.append(Tried(summary.first.hyperparameters, score, summary))
    return sorted(tried, key=lambda one: -one.score.mean)


def grid(
    benchmark: Benchmark, kind: type[Method], given: Mapping[str, Sequence[float]] | None = None
) -> dict[str, list[float]]:
    """Return the search grid: the paper's for a benchmark and method, updated with `given`."""
    space = search_space(benchmark.paper, kind.name)
    if not space and not given:
        raise InputError(
            f"the paper has no grid for {kind.title} on {benchmark.paper}: give values to try, "
            f"such as --lr 0.03 0.1 (in Python: lr=[0.03, 0.1])"
        )
    names = {symbol(name) for name in hyperparameters(kind)} | {"lr", "bs", "mbs"}
    known = {name: values for name, values in space.items() if name in names}
    return {**known, **{name: list(values) for name, values in (given or {}).items()}}


def _check_own(kind: type[Method], given: Values) -> None:
    """Refuse arguments that only `recollect.run` has."""
    if others := [name for name in given if name in OPTIONS and name not in hyperparameters(kind)]:
        raise InputError(
            f"recollect.search has no argument {others[0]!r}: it tries values on the validation "
            f"split and trains the best; pass {others[0]}= to recollect.run, with these values"
        )


def _axes(
    kind: type[Method],
    known: Benchmark | None,
    buffer: int | None,
    given: Values,
    names: Optimisation,
) -> dict[str, list[float]]:
    symbols = {symbol(name): value for name, value in given.items()}
    found = axes_of(kind, known, buffer, symbols, names)
    checked = {symbol(name): column for name, column in found.items()}
    axes = {name: checked[name] for name in symbols}
    if known is not None:
        return grid(known, kind, axes)
    if all(len(column) == 1 for column in axes.values()):
        raise InputError(
            f"there is nothing to search: give several values of a hyper-parameter of "
            f"{kind.title}, such as lr=[0.03, 0.1]"
        )
    return axes
