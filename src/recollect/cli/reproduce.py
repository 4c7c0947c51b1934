"""`recollect reproduce`: the paper's table for a benchmark, ours beside it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from recollect.cli.common import (
    add_common,
    checked_device,
    left_to_train,
    seeds_label,
    train,
    workers,
    write_results,
)
from recollect.cli.notices import notice
from recollect.cli.screen import add_groups, compact_table, console, named
from recollect.errors import InputError
from recollect.experiments import Results, Summary, paper
from recollect.experiments.estimate import in_words, seconds_by_method
from recollect.experiments.labels import SCORE_TITLES, SCORES, SETTINGS
from recollect.experiments.paper import Verdict
from recollect.experiments.reproduce import (
    Comparison,
    cells,
    compare,
    plans_of,
    stream_or_stand_in,
)
from recollect.experiments.values import seeds_from
from recollect.methods import every_method, title_of
from recollect.streams import BENCHMARKS, Benchmark, benchmark
from recollect.train import Job, Result

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["configure", "mark", "print_table", "say_finished"]

STYLES = {"equal": "green", "close": "green", "above": "cyan", "below": "red"}
RULE = (
    "✓ |ours − paper| ≤ 3·sqrt(σ²/seeds + σ²(paper)/10)   ≈ half a point more   ▲ above   ▼ below"
)
WEAK = (
    "(✓) weak: fewer than ten seeds (σ is then the larger of ours and the paper's), or a run that "
    "diverged or lies far below"
)
MOST_OF = 0.3
STAND_IN = "scikit-learn's digits, not MNIST: the paper has nothing to compare with"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("benchmark", nargs="?", help=f"one of: {', '.join(BENCHMARKS)}")
    parser.add_argument("--all", action="store_true",
                        help="every table of the paper that this machine can do")  # fmt: skip
    parser.add_argument("--scores", nargs="+", choices=SCORES, metavar="SCORE",
                        help=f"what to print: {', '.join(SCORES)}")  # fmt: skip
    parser.add_argument("--methods", nargs="+", metavar="METHOD",
                        help=f"some of: {', '.join(every_method())} "
                             "(default: the paper's)")  # fmt: skip
    parser.add_argument("--buffers", nargs="+", type=int, metavar="N",
                        help="buffer sizes (default: the paper's)")  # fmt: skip
    add_common(parser)
    parser.set_defaults(command=command)


def command(chosen: argparse.Namespace) -> int:
    """Train every row of the table and print it."""
    if chosen.all == bool(chosen.benchmark):
        raise InputError("name a benchmark, or give --all for every table: one of the two")
    if chosen.all:
        from recollect.cli.everything import everything

        return everything(chosen)
    known = benchmark(chosen.benchmark)
    rows = cells(known, chosen.methods, chosen.buffers, chosen.epochs)
    seeds = seeds_from(chosen.seeds)
    device = checked_device(chosen)
    plans_of(known, rows, seeds, chosen.epochs)
    known, stream = stream_or_stand_in(known, chosen.data_dir, notice)
    plans = plans_of(known, rows, seeds, chosen.epochs)
    precise = chosen.full_precision
    jobs = [job for each in plans for job in each.jobs(stream, None, device, precise)]
    if chosen.methods is None and chosen.on is None:
        _foretell(chosen, jobs)
    results = train(chosen, jobs, say_finished)
    write_results(chosen, results)
    for score in chosen.scores or ["accuracy"]:
        print_table(known, results, score)
    return 0


def print_table(known: Benchmark, results: Results, score: str = "accuracy") -> None:
    """The table of a score for a benchmark, with the paper's beside ours."""
    screen = console()
    summaries = results.summaries()
    ways = dict.fromkeys(f"{run.device}: {run.execution}" for run in results)
    behind = seeds_label(summaries)
    screen.print(f"{known.name}: {SCORE_TITLES[score]}, {behind}", style="bold")
    screen.print("; ".join(ways), style="dim")
    screen.print(_table(known, results, score))
    screen.print(RULE if known.stands_in is None else STAND_IN, style="dim")
    if known.stands_in is None and any(len(each.runs) < paper.SEEDS for each in summaries):
        screen.print(WEAK, style="dim")
    for each in summaries:
        if each.remarks:
            screen.print(f"{_remark(each)}; means include them", style="dim")


def mark(verdict: Verdict | None) -> str:
    """The coloured sign of a verdict; faint if it is weak."""
    if verdict is None:
        return ""
    return f"[{'dim ' * verdict.weak}{STYLES[verdict.kind]}]{verdict.mark}[/]"


def say_finished(job: Job, results: list[Result]) -> None:
    """Where there is no terminal for a bar, a line for every finished row."""
    if not sys.stderr.isatty():
        means = " ".join(str(s.mean("accuracy", n)) for s in Results(results).summaries()
                         for n in s.first.accuracy)  # fmt: skip
        notice(f"{named(job)}: {means}")


def _foretell(chosen: argparse.Namespace, jobs: Sequence[Job]) -> None:
    """Say how long all methods will take, and which of them takes most of it."""
    times = seconds_by_method(left_to_train(chosen, jobs), workers(chosen))
    total = sum(times.values())
    if not total:
        return
    slowest = max(times, key=times.__getitem__)
    notice(f"{in_words(total)} of training, more or less, without evaluation")
    if len(times) > 1 and times[slowest] > MOST_OF * total:
        titles = {job.kind.name: job.kind.title for job in jobs}
        title = titles.pop(slowest)
        notice(
            f"{title} takes {in_words(times[slowest])} of it; to leave it out: "
            f"--methods {' '.join(titles)}"
        )


def _table(known: Benchmark, results: Results, score: str) -> Table:
    summaries = [
        each
        for each in results.summaries()
        if any(each.mean(score, setting) for setting in each.first.accuracy)
    ]
    settings = [s for s in SETTINGS if any(each.mean(score, s) for each in summaries)]
    table = compact_table("method", right=["buffer"])
    for setting in settings:
        table.add_column(f"{SETTINGS[setting]}\nours", justify="right")
        if known.stands_in is None:
            table.add_column("\npaper", justify="right", style="dim")
            table.add_column("", justify="center")
    table.add_column("s per\nrun", justify="right")
    add_groups(table, ((s.first.method, _row(known, s, settings, score)) for s in summaries))
    return table


def _row(known: Benchmark, summary: Summary, settings: list[str], score: str) -> list[str]:
    run = summary.first
    compared = [
        compare(known, summary, setting, score) if summary.mean(score, setting) else None
        for setting in settings
    ]
    return [
        title_of(run.method),
        "" if run.buffer is None else str(run.buffer),
        *(text for one in compared for text in _columns(one, known.stands_in is None)),
        f"{summary.seconds:.2f}",
    ]


def _columns(one: Comparison | None, comparable: bool) -> tuple[str, ...]:
    if one is None:
        return ("-", "-", "") if comparable else ("-",)
    if not comparable:
        return (str(one.ours),)
    theirs = "-" if one.paper is None else str(one.paper)
    return str(one.ours), theirs, mark(one.verdict)


def _remark(summary: Summary) -> str:
    run, low = summary.first, summary.far_below
    seeds = ", ".join(str(each.seed) for each in summary.runs if each.diverged or each in low)
    buffer = "" if run.buffer is None else f" {run.buffer}"
    return f"{title_of(run.method)}{buffer}: {summary.remarks} (seed {seeds})"
