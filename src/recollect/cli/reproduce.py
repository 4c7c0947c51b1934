"""`recollect reproduce`: the paper's table for a benchmark, ours beside it."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from recollect.cli.common import (
    SETTINGS,
    add_common,
    check_places,
    compact_table,
    console,
    label,
    notice,
    seeds_label,
    train,
    workers,
)
from recollect.experiments import Results
from recollect.experiments.reproduce import (
    Comparison,
    cells,
    compare,
    plans_of,
    stream_or_stand_in,
)
from recollect.experiments.store import Store, write_json
from recollect.experiments.values import seeds_from
from recollect.methods import METHODS
from recollect.streams import BENCHMARKS, Benchmark, benchmark
from recollect.train import Job, Result, device_named

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["add_parser"]

MARKS = {"reproduced": "[green]✓[/]", "above": "[cyan]▲[/]", "below": "[red]▼[/]", None: ""}
RULE = "✓ |ours − paper| ≤ 3·sqrt(σ²/seeds + σ²(paper)/10) + 0.5   ▲ above   ▼ below"
STAND_IN = "scikit-learn's digits, not MNIST: the paper has nothing to compare with"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("reproduce", help="the paper's table, with ours beside it")
    parser.add_argument("benchmark", help=f"one of: {', '.join(BENCHMARKS)}")
    parser.add_argument("--methods", nargs="+", metavar="METHOD",
                        help=f"some of: {', '.join(METHODS)} (default: all)")  # fmt: skip
    parser.add_argument("--buffers", nargs="+", type=int, metavar="N",
                        help="buffer sizes (default: the paper's)")  # fmt: skip
    add_common(parser)
    parser.set_defaults(command=command)


def command(chosen: argparse.Namespace) -> int:
    """Train every row of the table and print it."""
    known = benchmark(chosen.benchmark)
    rows = cells(known, chosen.methods, chosen.buffers, chosen.epochs)
    seeds = seeds_from(chosen.seeds)
    workers(chosen)
    device = device_named(chosen.device)
    check_places(chosen)
    plans_of(known, rows, seeds, chosen.epochs)
    known, stream = stream_or_stand_in(known, chosen.data_dir, notice)
    plans = plans_of(known, rows, seeds, chosen.epochs)
    precise = chosen.full_precision
    jobs = [job for each in plans for job in each.jobs(stream, None, device, precise)]
    results = train(chosen, jobs, _tell)
    if chosen.json:
        write_json(chosen.json, results, Store(chosen.store))
    screen = console()
    ways = dict.fromkeys(f"{run.device}: {run.execution}" for run in results)
    behind = seeds_label(results.summaries())
    screen.print(f"{known.name}: accuracy after the last task, {behind}", style="bold")
    screen.print("; ".join(ways), style="dim")
    screen.print(_table(known, results))
    screen.print(RULE if known.stands_in is None else STAND_IN, style="dim")
    return 0


def _tell(job: Job, results: list[Result]) -> None:
    """Where there is no terminal for a bar, a line for every finished row."""
    if not sys.stderr.isatty():
        means = " ".join(str(s.mean("accuracy", n)) for s in Results(results).summaries()
                         for n in s.first.accuracy)  # fmt: skip
        notice(f"{label(job)}: {means}")


def _table(known: Benchmark, results: Results) -> Table:
    summaries = results.summaries()
    settings = [s for s in SETTINGS if any(s in summary.first.accuracy for summary in summaries)]
    table = compact_table()
    table.add_column("method")
    table.add_column("buffer", justify="right")
    for setting in settings:
        table.add_column(f"{SETTINGS[setting]}\nours", justify="right")
        if known.stands_in is None:
            table.add_column("\npaper", justify="right", style="dim")
            table.add_column("", justify="center")
    table.add_column("s per\nrun", justify="right")
    previous = ""
    for summary in summaries:
        run = summary.first
        if previous and run.method != previous:
            table.add_section()
        previous = run.method
        compared = [
            compare(known, summary, setting) if setting in run.accuracy else None
            for setting in settings
        ]
        table.add_row(
            METHODS[run.method].title,
            "" if run.buffer is None else str(run.buffer),
            *(text for one in compared for text in _columns(one, known.stands_in is None)),
            f"{summary.seconds:.2f}",
        )
    return table


def _columns(one: Comparison | None, comparable: bool) -> tuple[str, ...]:
    if one is None:
        return ("-", "-", "") if comparable else ("-",)
    if not comparable:
        return (str(one.ours),)
    theirs = "-" if one.paper is None else f"{one.paper.mean:.2f} ±{one.paper.std:.2f}"
    return str(one.ours), theirs, MARKS[one.verdict]
