"""`recollect run`: train a method on a benchmark and print a table."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from recollect.cli.common import (
    add_common,
    check_places,
    compact_table,
    console,
    device_of,
    notice,
    seeds_label,
    train,
    workers,
)
from recollect.errors import DataError
from recollect.experiments import Results, Summary, paper
from recollect.experiments.labels import SCORES, SETTINGS
from recollect.experiments.plan import Plan, plan
from recollect.experiments.store import Store, write_json
from recollect.experiments.values import seeds_from
from recollect.methods import every_method, hyperparameters, method, symbol
from recollect.streams import BENCHMARKS, Benchmark, DataUnavailable, Stream, benchmark, twin

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["add_hyperparameters", "configure", "given_values", "plans_for"]

SIZES = {"bs": "batch size", "mbs": "replay batch size"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.usage = "recollect run BENCHMARK METHOD [--buffer N ...] [--lr VALUE ...] [...]"
    parser.add_argument("benchmark", help=f"one of: {', '.join(BENCHMARKS)}")
    parser.add_argument("method", help=f"one of: {', '.join(every_method())}")
    parser.add_argument("--buffer", type=int, nargs="+", metavar="N",
                        help="examples to remember (default: the paper's smallest)")  # fmt: skip
    add_hyperparameters(parser, "several values span a grid")
    parser.add_argument("--validation", action="store_true",
                        help="score on a held-out tenth of the training set")  # fmt: skip
    add_common(parser)
    parser.set_defaults(command=command)


def add_hyperparameters(parser: argparse.ArgumentParser, use: str) -> None:
    """An option for every hyper-parameter of any method."""
    for name in hyperparameter_names():
        told = f"{SIZES.get(name, name)} (default: the paper's); {use}"
        parser.add_argument(f"--{name}", type=_number, nargs="+", metavar="VALUE", help=told)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number: give one, or several with spaces between them"
        ) from None


def given_values(chosen: argparse.Namespace) -> dict[str, list[float]]:
    """The hyper-parameters that a person gave, by symbol."""
    return {n: getattr(chosen, n) for n in hyperparameter_names() if getattr(chosen, n)}


def hyperparameter_names() -> list[str]:
    """Every hyper-parameter of any method, with the rate and the batch sizes."""
    own = {symbol(name) for kind in every_method().values() for name in hyperparameters(kind)}
    return ["lr", *sorted(own), *SIZES]


def command(chosen: argparse.Namespace) -> int:
    """Train, and print means over seeds."""
    known, kind = benchmark(chosen.benchmark), method(chosen.method)
    workers(chosen)
    device = device_of(chosen)
    check_places(chosen)
    plans = plans_for(chosen)
    stream = _stream(known, chosen)
    if chosen.buffer is None and (kind.replay is not None):
        notice(f"no --buffer given: using {plans[0].buffer}")
    precise = chosen.full_precision
    jobs = [job for each in plans for job in each.jobs(stream, None, device, precise)]
    results = train(chosen, jobs)
    if chosen.json:
        write_json(chosen.json, results, Store(chosen.store))
    screen = console()
    screen.print(_title(results), style="bold")
    screen.print(_table(results))
    screen.print(_footer(results), style="dim")
    return 0


def plans_for(chosen: argparse.Namespace) -> list[Plan]:
    """What the command trains, one plan for every buffer."""
    known, kind = benchmark(chosen.benchmark), method(chosen.method)
    sizes: list[int | None] = list(chosen.buffer or [None])
    if chosen.buffer is None and (kind.replay is not None):
        sizes = [(*paper.buffers(known.paper, kind.name), 200)[0]]
    return [
        plan(
            kind,
            benchmark=known,
            buffer=size,
            seeds=seeds_from(chosen.seeds),
            values=given_values(chosen),
            epochs=chosen.epochs,
            validation=chosen.validation,
        )
        for size in dict.fromkeys(sizes)
    ]


def _stream(known: Benchmark, chosen: argparse.Namespace) -> Stream:
    try:
        return known.stream(chosen.validation, chosen.data_dir, notice)
    except DataUnavailable as error:
        other = twin(known)
        if other is None:
            raise
        raise DataError(f"{error}; {other.name} needs no download") from None


def _table(results: Results) -> Table:
    summaries = results.summaries()
    varied = _varied(summaries)
    table = compact_table()
    for name in ("buffer", *varied):
        table.add_column(name, justify="right")
    table.add_column("setting")
    for name in (*SCORES.values(), "seconds"):
        table.add_column(name, justify="right")
    for summary in summaries:
        run = summary.first
        row = ["-" if run.buffer is None else str(run.buffer)]
        row += [f"{run.hyperparameters[name]:g}" for name in varied]
        for number, setting in enumerate(run.accuracy):
            means = [summary.mean(metric, setting) for metric in SCORES]
            table.add_row(
                *(row if number == 0 else [""] * len(row)),
                SETTINGS[setting],
                *("-" if mean is None else str(mean) for mean in means),
                f"{summary.seconds:.2f}" if number == 0 else "",
            )
    return table


def _title(results: Results) -> str:
    summaries = results.summaries()
    first = summaries[0].first
    return f"{first.benchmark} · {first.method} · {seeds_label(summaries)}"


def _footer(results: Results) -> str:
    """What the runs have in common, and what they cost."""
    summaries = results.summaries()
    first = summaries[0].first
    varied = _varied(summaries)
    values = [f"{n} {v:g}" for n, v in first.hyperparameters.items() if n not in varied]
    step = min(summary.seconds / summary.first.steps for summary in summaries) * 1e6
    held = max(run.memory_bytes for run in results) / 1024
    cost = f"{first.steps} steps of {step:.0f} µs a run · memory {held:.0f} KiB a run"
    diverged = sum(run.diverged for run in results)
    low = sum(len(summary.far_below) for summary in summaries)
    warning = [f"{diverged} of {len(results)} runs diverged"] if diverged else []
    warning += [f"{low} of {len(results)} runs far below the others"] if low else []
    where = f"{first.device}: {first.execution}"
    return " · ".join([", ".join(values), cost, where, *warning])


def _varied(summaries: list[Summary]) -> list[str]:
    """The hyper-parameters that are not the same in all rows."""
    names = summaries[0].first.hyperparameters
    return [n for n in names if len({s.first.hyperparameters[n] for s in summaries}) > 1]
