"""Options and output that several commands share."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from recollect.cli.notices import notice
from recollect.errors import InputError
from recollect.experiments import Results, Summary
from recollect.experiments.store import CommandStore, Store
from recollect.experiments.tensorboard import check_tensorboard, log_results
from recollect.files import check_writable
from recollect.streams.data.places import cache_folder
from recollect.train import Checkpoints, Job, Result, device_named, train_all
from recollect.train.loop import check
from recollect.train.parallel import cores

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from recollect.experiments.on_ray import OnRay

__all__ = [
    "add_common",
    "add_store",
    "check_places",
    "compact_table",
    "console",
    "device_of",
    "label",
    "notice",
    "seeds_label",
    "showing_progress",
    "train",
    "workers",
]

Finished = Callable[[Job, list[Result]], None]

WIDE = 120
REFRESH = 0.1


def add_common(parser: argparse.ArgumentParser) -> None:
    """The options that every training command takes."""
    parser.add_argument("--seeds", default="10", metavar="SEEDS",
                        help="10: seeds 0 to 9 (default); 3-5: a range; 3,7: a list")  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="write one object per run")
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="where the data files are")
    parser.add_argument("--epochs", type=int, metavar="N",
                        help="passes over each task (default: the paper's)")  # fmt: skip
    parser.add_argument("--workers", type=int, metavar="N",
                        help="processes on a CPU (default: all cores)")  # fmt: skip
    parser.add_argument("--device", default="auto", metavar="NAME",
                        help="cpu, cuda or cuda:N (default: a GPU if there is one)")  # fmt: skip
    parser.add_argument("--full-precision", action="store_true",
                        help="no bfloat16 on a GPU: slower")  # fmt: skip
    parser.add_argument("--time-limit", type=duration, metavar="TIME",
                        help="save and stop after 90s, 20m or 2h; "
                             "the same command continues")  # fmt: skip
    parser.add_argument("--fresh", action="store_true",
                        help="start over: neither continue a stopped command "
                             "nor use what the store has")  # fmt: skip
    parser.add_argument("--on", metavar="WHERE",
                        help="ray: a Ray cluster of this machine; or ray:ADDRESS")  # fmt: skip
    parser.add_argument("--tensorboard", type=Path, metavar="DIR",
                        help="write accuracies for TensorBoard there")  # fmt: skip
    add_store(parser)


def add_store(parser: argparse.ArgumentParser) -> None:
    """The option that names the result store."""
    parser.add_argument("--store", type=Path, metavar="FILE",
                        help="where results are kept (default: RECOLLECT_STORE, "
                             "or a file of this user)")  # fmt: skip


def duration(text: str) -> float:
    """The seconds that a person means by 90, 90s, 20m or 2h.

    >>> duration("20m"), duration("90")
    (1200.0, 90.0)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if found is None or float(found[1]) == 0:
        raise argparse.ArgumentTypeError(f"cannot read the time {text!r}: give 90s, 20m or 2h")
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]]


def train(
    chosen: argparse.Namespace, jobs: Sequence[Job], finished: Finished = lambda job, results: None
) -> Results:
    """Train the jobs of a command with a bar, continuing what was stopped before.

    Runs that the store has are not trained again, and those that are trained go there.
    """
    elsewhere = runner_named(chosen.on)
    store = CommandStore(Store(chosen.store), chosen.line, chosen.fresh)
    for job in jobs:
        check(job)
    store.store.add([])  # a store that cannot be written is said before the work, not after
    deadline = None if chosen.time_limit is None else time.monotonic() + chosen.time_limit
    kept = Checkpoints(cache_folder() / "unfinished", deadline=deadline)
    kept = kept.of(jobs, workers(chosen))
    left = kept.of_other_code()
    if chosen.fresh:
        for each in (kept, *(replace(kept, folder=folder) for folder in left)):
            each.clear()
    elif any(kept.folder.glob("*")):
        notice("continuing where this command was stopped (--fresh starts over)")
    elif left:
        notice("this command was stopped under other code and starts afresh "
               "(--fresh removes what was saved)")  # fmt: skip
    there = sum(run is not None for job in jobs for run in store.find(job))
    if there:
        total = sum(len(job.runs) for job in jobs)
        notice(f"{there} of {total} runs are in the store already (--fresh trains them again)")

    def done(job: Job, results: list[Result]) -> None:
        finished(job, results)
        if chosen.tensorboard:
            log_results(results, chosen.tensorboard)

    with showing_progress(jobs) as progress:
        return Results(
            train_all(
                jobs,
                workers=elsewhere.workers if elsewhere else workers(chosen),
                progress=progress,
                finished=done,
                notice=notice,
                checkpoints=kept,
                store=store,
                runner=elsewhere,
            )
        )


def runner_named(where: str | None) -> OnRay | None:
    """What does the work elsewhere, if a person asked for it."""
    if where is None:
        return None
    name, _, address = where.partition(":")
    if name != "ray":
        raise InputError(f"unknown place {where!r}: give ray, or ray:ADDRESS")
    from recollect.experiments.on_ray import OnRay

    return OnRay(address or None)


def device_of(chosen: argparse.Namespace) -> torch.device:
    """Where to train: what a person named, else the best that there is here or elsewhere."""
    if chosen.on is not None and chosen.device == "auto":
        elsewhere = runner_named(chosen.on)
        assert elsewhere is not None
        return elsewhere.device
    return device_named(chosen.device)


def workers(chosen: argparse.Namespace) -> int:
    """How many processes to use."""
    if chosen.workers is not None and chosen.workers < 1:
        raise InputError(f"the number of workers must be at least 1, not {chosen.workers}")
    return chosen.workers or cores()


def check_places(chosen: argparse.Namespace) -> None:
    """Refuse folders and files that cannot be used, before any work is done."""
    if chosen.json:
        check_writable(chosen.json)
    if chosen.tensorboard:
        check_tensorboard()
    if chosen.data_dir and not chosen.data_dir.is_dir():
        raise InputError(f"there is no folder {str(chosen.data_dir)!r}: correct --data-dir")


def seeds_label(summaries: Sequence[Summary]) -> str:
    """How many seeds stand behind each row."""
    count = len(summaries[0].runs)
    return f"{count} seed{'s' if count > 1 else ''}"


def console(stderr: bool = False) -> Console:
    """Where tables go; wide enough not to break them where there is no terminal."""
    from rich.console import Console

    class Screen(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    plain = Screen(highlight=False, stderr=stderr)
    return plain if plain.is_terminal else Screen(highlight=False, stderr=stderr, width=WIDE)


def compact_table() -> Table:
    """An empty table that fits a terminal of eighty columns."""
    from rich import box
    from rich.table import Table

    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)


@contextmanager
def showing_progress(jobs: Sequence[Job]) -> Iterator[Callable[[Job, int], None]]:
    """A bar over all steps of all runs; nothing where there is no terminal."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    total = sum(job.total_steps for job in jobs)
    bar = Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        auto_refresh=False,  # a thread of its own would be in the way of forking
        disable=not sys.stderr.isatty(),
    )
    with bar:
        line = bar.add_task("starting", total=total)
        shown = [0.0]

        def advance(job: Job, steps: int) -> None:
            bar.update(line, advance=steps, description=label(job))
            if time.monotonic() > shown[0] + REFRESH:
                shown[0] = time.monotonic()
                bar.refresh()

        yield advance


def label(job: Job | Result) -> str:
    """A job or a run in a few words."""
    if isinstance(job, Result):
        return f"{job.benchmark} {job.method}{f' {job.buffer}' if job.buffer else ''}"
    return f"{job.stream.name} {job.kind.name}{f' {job.buffer}' if job.buffer else ''}"
