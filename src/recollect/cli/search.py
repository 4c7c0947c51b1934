"""`recollect search`: the paper's protocol for choosing hyper-parameters."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from recollect.cli.common import add_common, checked_device, train, write_results
from recollect.cli.hyperparameters import given_values
from recollect.cli.notices import notice
from recollect.cli.reproduce import mark
from recollect.cli.run import Methods, add_target, smallest_buffer
from recollect.cli.screen import compact_table, console
from recollect.experiments import Results, paper
from recollect.experiments.bayes import bayesian
from recollect.experiments.labels import SETTINGS
from recollect.experiments.reproduce import compare, stream_or_stand_in
from recollect.experiments.search import Tried, by_criterion, criterion, grid, points_of, searched
from recollect.experiments.values import seeds_from
from recollect.methods import Method, method, static, symbol
from recollect.streams import Benchmark, benchmark
from recollect.train import Result

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["configure"]

SHOWN = 10


def configure(parser: argparse.ArgumentParser, methods: Methods | None = None) -> None:
    """Add the options of the command, with the hyper-parameters of these methods (or all)."""
    parser.usage = (
        "recollect search BENCHMARK METHOD [--buffer N] [--trials N] [--lr VALUE ...] [...]"
    )
    add_target(parser, methods, "values to try instead of the paper's grid")
    parser.add_argument("--buffer", type=int, metavar="N", help="buffer size")
    parser.add_argument("--trials", type=int, metavar="N",
                        help="so many trials between the grid's bounds, with Optuna")  # fmt: skip
    parser.add_argument("--search-seeds", default="1", metavar="SEEDS",
                        help="seeds of a configuration on the validation split "
                             "(default: 1)")  # fmt: skip
    add_common(parser)
    parser.set_defaults(command=command)


def command(chosen: argparse.Namespace) -> int:
    """Try the grid on the validation split, then the best of it on the test set."""
    known, kind = benchmark(chosen.benchmark), method(chosen.method)
    seeds, search_seeds = seeds_from(chosen.seeds), seeds_from(chosen.search_seeds)
    device = checked_device(chosen)
    size = chosen.buffer
    if size is None and (size := smallest_buffer(known, kind)):
        notice(f"no --buffer given: using {size}")
    axes = grid(known, kind, given_values(chosen))
    points = points_of(axes)
    plan = partial(searched, kind, benchmark=known, buffer=size, epochs=chosen.epochs)
    plan(points, seeds=search_seeds)  # what is wrong is said before data are loaded
    known, tests = stream_or_stand_in(known, chosen.data_dir, notice)
    plan = partial(plan, benchmark=known)
    part = known.stream(True, chosen.data_dir, notice)

    def on_validation(some: Sequence[Mapping[str, float]]) -> Results:
        jobs = plan(some, seeds=search_seeds).jobs(part, None, device, chosen.full_precision)
        return train(chosen, jobs)

    if chosen.trials is None:
        notice(f"{len(points)} configurations on the validation split")
        found = on_validation(points)
    else:
        found = _bayes(chosen.trials, kind, axes, on_validation)
    ranked = by_criterion(found)
    best = {name: ranked[0].values[name] for name in axes}
    notice(f"the best on the test set, {len(seeds)} seeds: {_said(best)}")
    jobs = plan([best], seeds=seeds, validation=False).jobs(
        tests, None, device, chosen.full_precision
    )
    results = train(chosen, jobs)
    write_results(chosen, [*found, *results])
    _show(known, kind, size, list(axes), ranked, results)
    return 0


def _bayes(
    trials: int,
    kind: type[Method],
    axes: Mapping[str, Sequence[float]],
    train_points: Callable[[Sequence[Mapping[str, float]]], Results],
) -> Results:
    everything: list[Result] = []

    def score(some: Sequence[Mapping[str, float]]) -> list[float]:
        results = train_points(some)
        everything.extend(results)
        return [_score(point, results) for point in some]

    bayesian(axes, trials, score, whole={"bs", "mbs", *map(symbol, static(kind))})
    return Results(everything)


def _score(point: Mapping[str, float], results: Results) -> float:
    scores = [
        criterion(run)
        for run in results
        if all(run.hyperparameters[name] == value for name, value in point.items())
    ]
    return sum(scores) / len(scores)


def _said(values: Mapping[str, float]) -> str:
    return ", ".join(f"{symbol(name)} {value:g}" for name, value in values.items())


def _show(
    known: Benchmark,
    kind: type[Method],
    size: int | None,
    names: Sequence[str],
    ranked: Sequence[Tried],
    results: Results,
) -> None:
    screen = console()
    buffer = f", buffer {size}" if size else ""
    screen.print(f"{known.name} · {kind.title}{buffer}: validation, best first", style="bold")
    screen.print(_ranking(names, ranked))
    theirs = {
        name: value
        for name, value in paper.hyperparameters(known.paper, kind.name, size).items()
        if name in names
    }
    best = {name: ranked[0].values[name] for name in names}
    if theirs and known.stands_in is None:
        same = "the same" if theirs == best else _said(theirs)
        rank = next((n for n, one in enumerate(ranked, 1) if _is(one, theirs)), None)
        where = f" (number {rank} here)" if rank and theirs != best else ""
        screen.print(f"chosen: {_said(best)}; the paper chose {same}{where}")
    screen.print(f"\non the test set, {len(results)} seeds", style="bold")
    summary = results.summaries()[0]
    for setting in summary.first.accuracy:
        one = compare(known, summary, setting)
        beside = f"   paper {one.paper}" if one.paper else ""
        screen.print(f"{SETTINGS[setting]:10s} {one.ours}{beside}  {mark(one.verdict)}")


def _is(one: Tried, values: Mapping[str, float]) -> bool:
    return all(one.values.get(name) == value for name, value in values.items())


def _ranking(names: Sequence[str], ranked: Sequence[Tried]) -> Table:
    settings = list(ranked[0].summary.first.accuracy)
    shown = [SETTINGS[setting] for setting in settings]
    table = compact_table(right=["", *map(symbol, names), "criterion", *shown])
    for number, one in enumerate(ranked[:SHOWN], 1):
        means = (one.summary.mean("accuracy", setting) for setting in settings)
        table.add_row(
            str(number), *(f"{one.values[name]:g}" for name in names), f"{one.score.mean:.2f}",
            *(f"{mean.mean:.2f}" if mean else "-" for mean in means),
        )  # fmt: skip
    if len(ranked) > SHOWN:
        table.caption = f"and {len(ranked) - SHOWN} more: recollect results --validation"
    return table
