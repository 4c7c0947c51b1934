"""`recollect reproduce --all`: every table of the paper that this machine can do."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import final

import torch

from recollect.cli.common import checked_device, left_to_train, train, workers, write_results
from recollect.cli.notices import notice
from recollect.cli.reproduce import print_table, say_finished
from recollect.errors import InputError
from recollect.experiments import Results
from recollect.experiments.estimate import in_words, seconds_for
from recollect.experiments.labels import SCORES
from recollect.experiments.reproduce import cells, plans_of, stream_or_stand_in
from recollect.experiments.values import seeds_from
from recollect.streams import BENCHMARKS, Benchmark, DataUnavailable
from recollect.train import Job, Result

__all__ = ["everything"]


@final
@dataclass(frozen=True)
class Table:
    """A benchmark with so many epochs a task, and the jobs that fill its table."""

    benchmark: Benchmark
    epochs: int | None
    jobs: list[Job]

    @property
    def title(self) -> str:
        """The table in a few words."""
        return f"{self.benchmark.name}{', one epoch' if self.epochs else ''}"


def everything(chosen: argparse.Namespace) -> int:
    """Say how long it will take, then train and print one table after the other.

    What the store has is not trained again, so a command that was stopped goes on.
    """
    if chosen.epochs is not None:
        raise InputError("--all has the paper's epochs: name a benchmark to choose others")
    device = checked_device(chosen)
    tables = [table for each in _asked(device) if (table := _table(chosen, each, device))]
    jobs = [job for table in tables for job in table.jobs]
    runs = sum(len(job.runs) for job in jobs)
    notice(f"{len(tables)} tables, {runs} runs; timing a few steps of each kind ...")
    seconds = seconds_for(left_to_train(chosen, jobs), workers(chosen))
    notice(f"{in_words(seconds)} of training, more or less, without evaluation")
    found: list[Result] = []
    for table in tables:
        notice(f"{table.title}: {sum(len(job.runs) for job in table.jobs)} runs")
        results = train(chosen, table.jobs, say_finished)
        found += results
        for score in chosen.scores or SCORES:
            if _has(results, score):
                print_table(table.benchmark, results, score)
    write_results(chosen, found)
    return 0


def _asked(device: torch.device) -> list[tuple[Benchmark, int | None]]:
    """The paper's benchmarks; networks with convolutions are left out where there is no GPU."""
    every = [each for each in BENCHMARKS.values() if each.stands_in is None]
    slow = [each for each in every if each.network != "mlp"]
    if device.type == "cpu":
        names = ", ".join(each.name for each in slow)
        notice(f"{names}: left out, they take days without a GPU (name one to train it anyway)")
        return [(each, None) for each in every if each not in slow]
    return [*((each, None) for each in every), *((each, 1) for each in slow)]


def _table(
    chosen: argparse.Namespace, asked: tuple[Benchmark, int | None], device: torch.device
) -> Table | None:
    known, epochs = asked
    rows = cells(known, chosen.methods, chosen.buffers, epochs)
    try:
        known, stream = stream_or_stand_in(known, chosen.data_dir, notice)
    except DataUnavailable as error:
        notice(f"{known.name}: left out: {error}")
        return None
    plans = plans_of(known, rows, seeds_from(chosen.seeds), epochs)
    jobs = [job for p in plans for job in p.jobs(stream, None, device, chosen.full_precision)]
    return Table(known, epochs, [job for job in jobs if _possible(job)])


def _possible(job: Job) -> bool:
    """Whether a method is defined on a stream, for those that --methods names."""
    return job.stream.boundaries or not job.kind.needs.boundaries


def _has(results: Results, score: str) -> bool:
    return any(value is not None for run in results for value in getattr(run, score).values())
