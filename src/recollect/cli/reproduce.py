"""`recollect reproduce`: reproduce the paper's table for a benchmark, or all of its tables."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch

from recollect.cli.options import add_common
from recollect.cli.progress import named
from recollect.cli.screen import add_groups, compact_table, console, notice
from recollect.cli.training import Training
from recollect.errors import InputError
from recollect.experiments import Results, Summary, paper
from recollect.experiments.estimate import in_words, seconds_by_method
from recollect.experiments.labels import (
    SCORE_TITLES,
    SCORES,
    SETTINGS,
    measured,
    setting_title,
)
from recollect.experiments.paper import Verdict
from recollect.experiments.reproduce import cells, compare, plans_of, stream_or_stand_in
from recollect.experiments.values import seeds_from
from recollect.methods import every_method, title_of
from recollect.streams import BENCHMARKS, Benchmark, DataUnavailable, benchmark
from recollect.train import Job, Result

if TYPE_CHECKING:
    from rich.table import Table

STYLES = {"equal": "green", "close": "green", "above": "cyan", "below": "red"}
RULE = (
    "✓ |ours − paper| ≤ 3·sqrt(σ²/seeds + σ²(paper)/10)   ≈ half a point more   ▲ above   ▼ below"
)
WEAK = (
    "(✓) weak: fewer than ten seeds (σ is then the larger of ours and the paper's), or a run that "
    "diverged or is far below"
)
MOST_OF = 0.3
STAND_IN = "scikit-learn's digits, not MNIST: there are no published results to compare with"


class Wanted(NamedTuple):
    """Table to fill: a benchmark, its epochs per task, and the jobs of its rows."""

    benchmark: Benchmark
    epochs: int | None
    jobs: list[Job]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("benchmark", nargs="?", help=f"one of: {', '.join(BENCHMARKS)}")
    parser.add_argument("--all", action="store_true",
                        help="all tables of the paper that this machine can train")  # fmt: skip
    parser.add_argument("--scores", nargs="+", choices=SCORES, metavar="SCORE",
                        help=f"score to print: {', '.join(SCORES)}")  # fmt: skip
    parser.add_argument("--methods", nargs="+", metavar="METHOD",
                        help=f"some of: {', '.join(every_method())} "
                             "(default: the paper's)")  # fmt: skip
    parser.add_argument("--buffers", nargs="+", type=int, metavar="N",
                        help="buffer sizes (default: the paper's)")  # fmt: skip
    add_common(parser)
    parser.set_defaults(command=command)


def command(chosen: argparse.Namespace) -> int:
    """Train all rows of each table, and print the tables.

    Stored runs are not trained again, so an interrupted command can be continued.
    """
    if chosen.all == bool(chosen.benchmark):
        raise InputError("give either the name of a benchmark, or --all for every table")
    if chosen.all and chosen.epochs is not None:
        raise InputError("--all uses the paper's epochs: to set --epochs, name a benchmark")
    training = Training(chosen)
    tables = list(_wanted(chosen, training))
    jobs = [job for table in tables for job in table.jobs]
    if chosen.all:
        notice(f"{len(tables)} tables, {_runs(jobs)} runs; timing a few steps of each kind ...")
    if chosen.all or (chosen.methods is None and chosen.on is None):
        _foretell(training, jobs)
    found: list[Result] = []
    for table in tables:
        if chosen.all:
            title = f"{table.benchmark.name}{', one epoch' if table.epochs else ''}"
            notice(f"{title}: {_runs(table.jobs)} runs")
        results = training.train(table.jobs, _say_finished)
        found += results
        training.write(found)
        for score in chosen.scores or (SCORES if chosen.all else ["accuracy"]):
            if not chosen.all or measured(results, [score]):
                print_table(table.benchmark, results, score)
    return 0


def _wanted(chosen: argparse.Namespace, training: Training) -> Iterator[Wanted]:
    seeds = seeds_from(chosen.seeds)
    one = [] if chosen.all else [(benchmark(chosen.benchmark), chosen.epochs)]
    for known, epochs in one or _every_table(training.device):
        if not paper.printed(known.paper):
            raise InputError(
                f"the paper has no results on {known.name}: train methods on it with recollect run "
                f"{known.name} METHOD, and compare them with recollect compare"
            )
        rows = cells(known, chosen.methods, chosen.buffers, epochs)
        plans_of(known, rows, seeds, epochs)  # validate before loading data
        try:
            found, stream = stream_or_stand_in(known, chosen.data_dir, notice)
        except DataUnavailable as error:
            if not chosen.all:
                raise
            notice(f"{known.name} is skipped: {error}")
            continue
        jobs = training.jobs(plans_of(found, rows, seeds, epochs), stream)
        if chosen.all:  # a method that --methods names may not be defined on every stream
            jobs = [j for j in jobs if j.stream.boundaries or not j.kind.needs.boundaries]
        yield Wanted(found, epochs, jobs)


def _every_table(device: torch.device) -> list[tuple[Benchmark, int | None]]:
    """Return the paper's benchmarks; without a GPU, skip those with convolutional networks."""
    known = [each for each in BENCHMARKS.values() if paper.printed(each.paper)]
    every = [each for each in known if each.stands_in is None]
    slow = [each for each in every if each.network != "mlp"]
    if device.type == "cpu":
        names = ", ".join(each.name for each in slow)
        notice(f"skipping {names}: they take days without a GPU (name one to train it anyway)")
        return [(each, None) for each in every if each not in slow]
    return [*((each, None) for each in every), *((each, 1) for each in slow)]


def _runs(jobs: Sequence[Job]) -> int:
    return sum(len(job.runs) for job in jobs)


def print_table(known: Benchmark, results: Results, score: str = "accuracy") -> None:
    """Print the table of a score for a benchmark, next to the published results."""
    screen = console()
    summaries = results.summaries()
    ways = dict.fromkeys(f"{run.device}: {run.execution}" for run in results)
    screen.print(f"{known.name}: {SCORE_TITLES[score]}, {summaries[0].seeds}", style="bold")
    screen.print("; ".join(ways), style="dim")
    screen.print(_table(known, results, score))
    screen.print(RULE if known.stands_in is None else STAND_IN, style="dim")
    if known.stands_in is None and any(len(each.runs) < paper.SEEDS for each in summaries):
        screen.print(WEAK, style="dim")
    for each in summaries:
        if each.remarks:
            screen.print(f"{_remark(each)}; means include them", style="dim")


def mark(verdict: Verdict | None) -> str:
    """Return the coloured symbol of a verdict, dimmed if it is weak."""
    if verdict is None:
        return ""
    return f"[{'dim ' * verdict.weak}{STYLES[verdict.kind]}]{verdict.mark}[/]"


def _say_finished(job: Job, results: list[Result]) -> None:
    """Print a line for each finished row if there is no terminal for a progress bar."""
    if not sys.stderr.isatty():
        means = " ".join(str(s.mean("accuracy", n)) for s in Results(results).summaries()
                         for n in s.first.accuracy)  # fmt: skip
        notice(f"{named(job)}: {means}")


def _foretell(training: Training, jobs: Sequence[Job]) -> None:
    """Print the estimated training time; for one table, also the slowest method."""
    times = seconds_by_method(training.left(jobs), training.workers)
    total = sum(times.values())
    if not total:
        return
    slowest = max(times, key=times.__getitem__)
    notice(f"estimated training time: {in_words(total)}, without evaluation")
    if not training.chosen.all and len(times) > 1 and times[slowest] > MOST_OF * total:
        titles = {job.kind.name: job.kind.title for job in jobs}
        title = titles.pop(slowest)
        notice(
            f"{title} takes {in_words(times[slowest])} of it; to skip it: "
            f"--methods {' '.join(titles)}"
        )


def _table(known: Benchmark, results: Results, score: str) -> Table:
    summaries = results.summaries()
    settings = [s for s in SETTINGS if any(each.mean(score, s) for each in summaries)]
    table = compact_table("method", right=["buffer"])
    for setting in settings:
        table.add_column(f"{setting_title(setting)}\nours", justify="right")
        if known.stands_in is None:
            table.add_column("\npaper", justify="right", style="dim")
            table.add_column("", justify="center")
    table.add_column("s per\nrun", justify="right")
    rows = [(each.first.method, _row(known, each, settings, score)) for each in summaries
            if any(each.mean(score, setting) for setting in settings)]  # fmt: skip
    add_groups(table, rows)
    return table


def _row(known: Benchmark, summary: Summary, settings: list[str], score: str) -> list[str]:
    run = summary.first
    row = [title_of(run.method), "" if run.buffer is None else str(run.buffer)]
    for setting in settings:
        cells = ["-", "-", ""]
        if summary.mean(score, setting):
            one = compare(known, summary, setting, score)
            cells = [str(one.ours), str(one.paper or "-"), mark(one.verdict)]
        row += cells if known.stands_in is None else cells[:1]
    return [*row, f"{summary.seconds:.2f}"]


def _remark(summary: Summary) -> str:
    run, low = summary.first, summary.far_below
    seeds = ", ".join(str(each.seed) for each in summary.runs if each.diverged or each in low)
    buffer = "" if run.buffer is None else f" {run.buffer}"
    return f"{title_of(run.method)}{buffer}: {summary.remarks} (seed {seeds})"
