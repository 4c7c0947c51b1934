"""`recollect run`: train a method on a benchmark and print a table."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
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
from recollect.cli.screen import compact_table, console, notice
from recollect.cli.training import Training
from recollect.errors import DataError
from recollect.experiments import Results, Summary
from recollect.experiments.labels import MORE_SCORES, SCORES, measured, setting_title
from recollect.experiments.plan import Plan, plan
from recollect.experiments.reproduce import cells
from recollect.experiments.values import seeds_from
from recollect.methods import Method, method, omitted_defaults
from recollect.streams import Benchmark, DataUnavailable, Stream, benchmark, twin
from recollect.train import Result

if TYPE_CHECKING:
    from rich.table import Table

ALL_DIVERGED = 3


def configure(parser: argparse.ArgumentParser, methods: Methods | None = None) -> None:
    """Add the options of the command, with the hyper-parameters of these methods (or all)."""
    parser.usage = "recollect run BENCHMARK METHOD [--buffer N ...] [--lr VALUE ...] [...]"
    add_target(parser, methods, "default: the paper's; with several values, all combinations are "
                                "trained")  # fmt: skip
    parser.add_argument("--buffer", type=int, nargs="+", metavar="N",
                        help="buffer size in examples (default: the paper's smallest)")  # fmt: skip
    add_network(parser)
    add_optimiser(parser)
    parser.add_argument("--validation", action="store_true",
                        help="evaluate on a held-out tenth of the training set")  # fmt: skip
    add_shared(parser, "--class-order")
    add_common(parser)
    parser.set_defaults(command=command)


def command(chosen: argparse.Namespace) -> int:
    """Train the runs, and print means over seeds."""
    known, kind = benchmark(chosen.benchmark), method(chosen.method)
    training = Training(chosen)
    plans = plans_for(chosen)
    stream = _stream(known, chosen)
    if chosen.buffer is None and kind.replay is not None:
        notice(f"no --buffer given: using {plans[0].buffer}")
    results = training.train(training.jobs(plans, stream))
    training.write(results)
    screen, summaries = console(), results.summaries()
    first = summaries[0].first
    named = [first.network_class] if first.network_class else []
    title = [first.benchmark, first.method, *named, *summaries[0].chosen, summaries[0].seeds]
    screen.print(" · ".join(title), style="bold")
    screen.print(_table(summaries, SCORES, seconds=True))
    screen.print(_footer(results, summaries), style="dim")
    if len(summaries) == 1:
        for line in _more(summaries[0]):
            screen.print(line, style="dim")
    elif any(run.curves is not None for run in results):
        screen.print(_table(summaries, measured(results, MORE_SCORES)))
    if all(run.diverged for run in results):
        notice("all runs diverged, so their scores are meaningless: try a lower --lr")
        return ALL_DIVERGED
    return 0


def plans_for(chosen: argparse.Namespace) -> list[Plan]:
    """Return what the command trains, one plan per buffer size."""
    known, kind = benchmark(chosen.benchmark), method(chosen.method)
    sizes = chosen.buffer or [smallest_buffer(known, kind)]
    return [
        plan(
            kind,
            benchmark=known,
            buffer=size,
            seeds=seeds_from(chosen.seeds),
            values=given_values(chosen),
            epochs=chosen.epochs,
            validation=chosen.validation,
            optimisation=chosen_optimisation(chosen),
            network=chosen_network(chosen),
        )
        for size in dict.fromkeys(sizes)
    ]


def smallest_buffer(known: Benchmark, kind: type[Method]) -> int | None:
    """Return the default buffer size: the paper's smallest, or None for methods without memory."""
    return cells(known, [kind.name])[0].buffer


def _stream(known: Benchmark, chosen: argparse.Namespace) -> Stream:
    try:
        return known.stream(chosen.validation, chosen.data_dir, notice, chosen.class_order)
    except DataUnavailable as error:
        other = twin(known)
        if other is None:
            raise
        raise DataError(f"{error}; {other.name} needs no download") from None


def _table(summaries: Sequence[Summary], scores: Iterable[str], *, seconds: bool = False) -> Table:
    varied, names = _varied(summaries), list(scores)
    table = compact_table(right=("buffer", *varied))
    table.add_column("setting")
    for name in (*((SCORES | MORE_SCORES)[name] for name in names), *(["seconds"] * seconds)):
        table.add_column(name, justify="right")
    for summary in summaries:
        run, count = summary.first, len(summary.runs)
        row = ["-" if run.buffer is None else str(run.buffer)]
        row += [f"{_value(run, name):g}" for name in varied]
        for number, setting in enumerate(run.accuracy):
            means = [summary.mean(name, setting) for name in names]
            table.add_row(
                *(row if number == 0 else [""] * len(row)),
                setting_title(setting),
                *("-" if mean is None else mean.beside(count) for mean in means),
                *([f"{summary.seconds:.2f}" if number == 0 else ""] * seconds),
            )
    return table


def _footer(results: Results, summaries: list[Summary]) -> str:
    first = summaries[0].first
    varied = _varied(summaries)
    values = [f"{n} {v:g}" for n, v in first.hyperparameters.items() if n not in varied]
    step = min(summary.seconds / summary.first.steps for summary in summaries) * 1e6
    sizes = dict.fromkeys(f"{run.memory_bytes / 1000:.0f}" for run in results)
    cost = f"{first.steps} steps of {step:.0f} µs per run · memory {' / '.join(sizes)} kB per run"
    counts = {
        "diverged": sum(run.diverged for run in results),
        "far below the others": sum(len(summary.far_below) for summary in summaries),
    }
    remarks = [f"{n} of {len(results)} runs {what}" for what, n in counts.items() if n]
    where = f"{first.device}: {first.execution}"
    named = [] if first.optimiser == "sgd" else [first.optimiser]
    return " · ".join([", ".join([*named, *values]), cost, where, *remarks])


def _more(summary: Summary) -> list[str]:
    """Return a line for each additional score of these runs."""
    lines, count = [], len(summary.runs)
    for name in measured(summary.runs, MORE_SCORES):
        means = {setting: summary.mean(name, setting) for setting in summary.settings}
        shown = [f"{setting_title(s)} {mean.beside(count)}" for s, mean in means.items() if mean]
        lines.append(f"{MORE_SCORES[name]}: {', '.join(shown)}")
    return lines


def _varied(summaries: Sequence[Summary]) -> list[str]:
    names = dict.fromkeys(name for each in summaries for name in each.first.hyperparameters)
    return [name for name in names if len({_value(each.first, name) for each in summaries}) > 1]


def _value(run: Result, name: str) -> float:
    return {**omitted_defaults(method(run.method)), **run.hyperparameters}[name]
