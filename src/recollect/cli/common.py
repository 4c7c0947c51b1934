"""Options and work that several commands share."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from recollect.cli.notices import notice
from recollect.cli.parser import duration
from recollect.cli.screen import showing_progress
from recollect.errors import InputError
from recollect.experiments import Results, Summary
from recollect.experiments.store import CommandStore, Store, write_json
from recollect.experiments.tensorboard import check_tensorboard, log_results
from recollect.files import check_writable
from recollect.streams.data.places import cache_folder
from recollect.train import Checkpoints, Job, Result, device_named, train_all
from recollect.train.loop import check
from recollect.train.parallel import cores

if TYPE_CHECKING:
    from recollect.experiments.on_ray import OnRay

__all__ = [
    "add_common",
    "add_data_dir",
    "add_files",
    "add_store",
    "check_folder",
    "checked_device",
    "left_to_train",
    "runner_named",
    "seeds_label",
    "train",
    "workers",
    "write_results",
]

Finished = Callable[[Job, list[Result]], None]


def add_common(parser: argparse.ArgumentParser) -> None:
    """The options that every training command takes."""
    # fmt: off
    add = parser.add_argument
    add("--seeds", default="10", metavar="SEEDS",
        help="10: seeds 0 to 9 (default); 3-5: a range; 3,7: a list")
    add("--json", type=Path, metavar="FILE", help="write one object per run")
    add_data_dir(parser)
    add("--epochs", type=int, metavar="N", help="passes over each task (default: the paper's)")
    add("--workers", type=int, metavar="N", help="processes on a CPU (default: all cores)")
    add("--device", default="auto", metavar="NAME",
        help="cpu, cuda or cuda:N (default: a GPU if there is one)")
    add("--full-precision", action="store_true", help="no bfloat16 on a GPU: slower")
    add("--time-limit", type=duration, metavar="TIME",
        help="save and stop after 90s, 20m or 2h; the same command continues")
    add("--fresh", action="store_true",
        help="start over: neither continue a stopped command nor use what the store has")
    add("--on", metavar="WHERE", help="ray: a Ray cluster of this machine; or ray:ADDRESS")
    add("--tensorboard", type=Path, metavar="DIR", help="write accuracies for TensorBoard there")
    # fmt: on
    add_store(parser)


def add_store(parser: argparse.ArgumentParser) -> None:
    """The option that names the result store."""
    parser.add_argument("--store", type=Path, metavar="FILE",
                        help="the result store (default: RECOLLECT_STORE, or a file of this "
                             "user)")  # fmt: skip


def add_files(parser: argparse.ArgumentParser) -> None:
    """The options that name files with results, or the result store."""
    parser.add_argument("--from", type=Path, nargs="+", dest="files", metavar="FILE",
                        help="runs from files that --json wrote, .jsonl files or folders, and not "
                             "from the store (unless --store names one)")  # fmt: skip
    add_store(parser)


def add_data_dir(parser: argparse.ArgumentParser) -> None:
    """The option that names the folder of data sets."""
    parser.add_argument("--data-dir", type=Path, metavar="DIR",
                        help="where the data files are, before the cache is looked in (default: "
                             "$RECOLLECT_DATA)")  # fmt: skip


def train(
    chosen: argparse.Namespace, jobs: Sequence[Job], finished: Finished = lambda job, results: None
) -> Results:
    """Train the jobs of a command with a bar, continuing what was stopped before.

    Runs that the store has are not trained again, and those that are trained go there.
    """
    elsewhere = runner_named(chosen.on)
    store = _store_of(chosen)
    for job in jobs:
        check(job)
    store.store.add([])  # a store that cannot be written is said before the work, not after
    checkpoints = _checkpoints(chosen, jobs)
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
                checkpoints=checkpoints,
                store=store,
                runner=elsewhere,
            )
        )


def _checkpoints(chosen: argparse.Namespace, jobs: Sequence[Job]) -> Checkpoints:
    """Where the command saves; says whether it continues, and removes what --fresh gives up."""
    deadline = None if chosen.time_limit is None else time.monotonic() + chosen.time_limit
    found = Checkpoints(cache_folder() / "unfinished", deadline=deadline)
    found = found.of(jobs, workers(chosen))
    left = found.of_other_code()
    if chosen.fresh:
        for each in (found, *(replace(found, folder=folder) for folder in left)):
            each.clear()
    elif any(found.folder.glob("*")):
        notice("continuing where this command was stopped (--fresh starts over)")
    elif left:
        notice("this command was stopped under other code and starts afresh "
               "(--fresh removes what was saved)")  # fmt: skip
    return found


def left_to_train(chosen: argparse.Namespace, jobs: Sequence[Job]) -> list[Job]:
    """The jobs of which the store does not have all runs."""
    store = _store_of(chosen)
    return [job for job in jobs if not all(store.find(job))]


def _store_of(chosen: argparse.Namespace) -> CommandStore:
    return CommandStore(Store(chosen.store), chosen.line, chosen.fresh)


def write_results(chosen: argparse.Namespace, results: Sequence[Result]) -> None:
    """Write what --json asks for, if it does."""
    if chosen.json:
        write_json(chosen.json, results, Store(chosen.store))


def runner_named(where: str | None) -> OnRay | None:
    """What trains elsewhere, if --on asks for it."""
    if where is None:
        return None
    name, _, address = where.partition(":")
    if name != "ray":
        raise InputError(f"unknown place {where!r}: give ray, or ray:ADDRESS")
    from recollect.experiments.on_ray import OnRay

    return OnRay(address or None)


def checked_device(chosen: argparse.Namespace) -> torch.device:
    """Where to train: what --device names, else the best that there is here or elsewhere.

    What cannot be used of the common options is refused, before any work is done.
    """
    workers(chosen)
    elsewhere = runner_named(chosen.on) if chosen.device == "auto" else None
    device = elsewhere.device if elsewhere else device_named(chosen.device)
    if chosen.json:
        check_writable(chosen.json)
    if chosen.tensorboard:
        check_tensorboard()
    check_folder(chosen.data_dir)
    return device


def check_folder(folder: Path | None) -> None:
    """Refuse a folder of data sets that there is not."""
    if folder and not folder.is_dir():
        raise InputError(f"there is no folder {str(folder)!r}: correct --data-dir")


def workers(chosen: argparse.Namespace) -> int:
    """How many processes to use."""
    if chosen.workers is not None and chosen.workers < 1:
        raise InputError(f"the number of workers must be at least 1, not {chosen.workers}")
    return chosen.workers or cores()


def seeds_label(summaries: Sequence[Summary]) -> str:
    """How many seeds stand behind each row."""
    count = len(summaries[0].runs)
    return f"{count} seed{'s' if count > 1 else ''}"
