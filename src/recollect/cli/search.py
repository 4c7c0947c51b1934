"""`recollect search`: hyper-parameter search with the paper's protocol."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from recollect.cli.options import (
    Methods,
    add_common,
    add_network,
    add_optimiser,
    add_shared,
    add_target,
    chosen_network,
    chosen_optimisation,
    given_values,
)
from recollect.cli.reproduce import mark
from recollect.cli.run import smallest_buffer
from recollect.cli.screen import compact_table, console, notice
from recollect.cli.training import Training
from recollect.experiments import Results, paper
from recollect.experiments.labels import setting_title
from recollect.experiments.plan import plan, points_of
from recollect.experiments.reproduce import compare, stream_or_stand_in
from recollect.experiments.search import Search, Tried, agrees, grid, said, searched
from recollect.experiments.values import seeds_from
from recollect.methods import Method, method, symbol
from recollect.streams import Benchmark, benchmark

if TYPE_CHECKING:
    from rich.table import Table

SHOWN = 10


def configure(parser: argparse.ArgumentParser, methods: Methods | None = None) -> None:
    """Add the options of the command, with the hyper-parameters of these methods (or all)."""
    parser.usage = (
        "recollect search BENCHMARK METHOD [--buffer N] [--trials N] [--lr VALUE ...] [...]"
    )
    add_target(parser, methods, "values to try instead of the paper's grid")
    add_network(parser)
    add_optimiser(parser)
    parser.add_argument("--buffer", type=int, metavar="N", help="buffer size")
    parser.add_argument("--trials", type=int, metavar="N",
                        help="number of Optuna trials within the bounds of the grid (default: "
                             "try the whole grid)")  # fmt: skip
    parser.add_argument("--search-seeds", default="1", metavar="SEEDS",
                        help="seeds of each configuration on the validation split "
                             "(default: 1)")  # fmt: skip
    add_shared(parser, "--class-order")
    add_common(parser)
    parser.set_defaults(command=command)


def command(chosen: argparse.Namespace) -> int:
    """Score the grid on the validation split, then evaluate the best point on the test set."""
    known, kind = benchmark(chosen.benchmark), method(chosen.method)
    seeds, search_seeds = seeds_from(chosen.seeds), seeds_from(chosen.search_seeds)
    training = Training(chosen)
    size = chosen.buffer
    if size is None and (size := smallest_buffer(known, kind)):
        notice(f"no --buffer given: using {size}")
    axes = grid(known, kind, given_values(chosen))
    points = points_of(axes)
    planned = partial(plan, kind, benchmark=known, buffer=size, epochs=chosen.epochs,
                      optimisation=chosen_optimisation(chosen),
                      network=chosen_network(chosen))  # fmt: skip
    planned(values=points, seeds=search_seeds)  # validate before loading data
    order = chosen.class_order
    known, tests = stream_or_stand_in(known, chosen.data_dir, notice, order)
    planned = partial(planned, benchmark=known)
    split = known.stream(True, chosen.data_dir, notice, order)

    def validate(some: Sequence[Mapping[str, float]]) -> Results:
        plans = [planned(values=some, seeds=search_seeds, validation=True)]
        return training.train(training.jobs(plans, split))

    def test(best: Mapping[str, float]) -> Results:
        notice(f"evaluating the best on the test set, {len(seeds)} seeds: {said(best)}")
        return training.train(training.jobs([planned(values=best, seeds=seeds)], tests))

    if chosen.trials is None:
        notice(f"{len(points)} configurations on the validation split")
    found = searched(kind, axes, chosen.trials, validate, test)
    training.write([*found.validation, *found.results])
    _show(known, kind, size, found)
    return 0


def _show(known: Benchmark, kind: type[Method], size: int | None, found: Search) -> None:
    screen = console()
    best, ranked, results = found.best, found.tried, found.results
    buffer = f", buffer {size}" if size else ""
    screen.print(f"{known.name} · {kind.title}{buffer}: validation, best first", style="bold")
    screen.print(_ranking(list(best), ranked))
    chosen = paper.hyperparameters(known.paper, kind.name, size)
    theirs = {name: value for name, value in chosen.items() if name in best}
    if theirs and known.stands_in is None and not results[0].network_class:
        same = "the same" if theirs == best else said(theirs)
        rank = next((n for n, one in enumerate(ranked, 1) if agrees(one.values, theirs)), None)
        where = f" (number {rank} here)" if rank and theirs != best else ""
        screen.print(f"chosen: {said(best)}; the paper chose {same}{where}")
    screen.print(f"\non the test set, {len(results)} seeds", style="bold")
    summary = results.summaries()[0]
    for setting in summary.first.accuracy:
        one = compare(known, summary, setting)
        beside = f"   paper {one.paper}" if one.paper else ""
        screen.print(f"{setting_title(setting):10s} {one.ours}{beside}  {mark(one.verdict)}")


def _ranking(names: Sequence[str], ranked: Sequence[Tried]) -> Table:
    settings = list(ranked[0].summary.first.accuracy)
    shown = [setting_title(setting) for setting in settings]
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
