"""Train the jobs of a command: checks before, checkpoints, the result store, progress, results."""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, final

from recollect.cli.progress import showing_progress
from recollect.cli.screen import notice
from recollect.errors import InputError
from recollect.experiments import Results
from recollect.experiments.files import write_runs
from recollect.experiments.plan import Plan
from recollect.experiments.recorder import Recorder
from recollect.experiments.store import Store
from recollect.experiments.tensorboard import log_results, summary_writer
from recollect.files import check_new
from recollect.streams import Stream
from recollect.streams.data.files import cache_folder
from recollect.train import Checkpoints, Details, Job, Result, device_named, train_all
from recollect.train.devices import cores, in_half

if TYPE_CHECKING:
    from recollect.experiments.on_ray import OnRay


@final
class Training:
    """Training as the common options ask for it; raises `InputError` if they are not valid.

    By default the device is the best one of this machine or of the Ray cluster.
    """

    def __init__(self, chosen: argparse.Namespace) -> None:
        if chosen.workers is not None and chosen.workers < 1:
            raise InputError(f"the number of workers must be at least 1, not {chosen.workers}")
        self.chosen = chosen
        self._details = Details.of(
            chosen.curves, chosen.curve_examples, chosen.confusion, chosen.save_networks
        )
        self._runner = runner_named(chosen.on)
        self.device = device_named(chosen.device)
        if self._runner is not None and chosen.device == "auto":
            self.device = self._runner.device
        self.workers = chosen.workers or cores()
        if chosen.json:
            check_new(chosen.json, chosen.force, "--force")
        if chosen.tensorboard:
            summary_writer()
        check_folder(chosen.data_dir)
        self._store = Store(chosen.store)
        self._recorder = Recorder(self._store, chosen.line, chosen.fresh)

    def jobs(self, plans: Sequence[Plan], stream: Stream) -> list[Job]:
        """Build the jobs of some plans, with the paper's network."""
        half = in_half(self.chosen.precision, self.device)
        jobs = [job for each in plans for job in each.jobs(stream, None, self.device, half)]
        return [replace(job, details=self._details) for job in jobs]

    def left(self, jobs: Sequence[Job]) -> list[Job]:
        """Return the jobs with runs that are not in the store."""
        return [job for job in jobs if not all(self._recorder.find(job))]

    def train(
        self,
        jobs: Sequence[Job],
        finished: Callable[[Job, list[Result]], None] = lambda job, results: None,
    ) -> Results:
        """Train jobs with a progress bar, resuming from checkpoints.

        Runs in the result store are not trained again, and new runs are added to it.
        """
        recorder, logs = self._recorder, self.chosen.tensorboard
        for job in jobs:
            job.check()
        self._store.add([])  # fail before training if the store cannot be written
        checkpoints = self._checkpoints(jobs)
        there = sum(run is not None for job in jobs for run in recorder.find(job))
        if there:
            total = sum(len(job.runs) for job in jobs)
            notice(f"{there} of {total} runs are already in the store (--fresh trains them again)")

        def done(job: Job, results: list[Result]) -> None:
            finished(job, results)
            if logs:
                log_results(results, logs)

        with showing_progress(jobs) as progress:
            return recorder.results(
                train_all(
                    jobs,
                    workers=self._runner.workers if self._runner else self.workers,
                    progress=progress,
                    finished=done,
                    notice=notice,
                    checkpoints=checkpoints,
                    store=recorder,
                    runner=self._runner,
                )
            )

    def write(self, results: Sequence[Result]) -> None:
        """Write the results to the file of --json, if given."""
        if self.chosen.json:
            write_runs(self.chosen.json, results)

    def _checkpoints(self, jobs: Sequence[Job]) -> Checkpoints:
        """Return the checkpoints of the jobs; --fresh removes existing ones."""
        limit = self.chosen.time_limit
        deadline = None if limit is None else time.monotonic() + limit
        line = self.chosen.line
        found = Checkpoints(cache_folder() / "unfinished", deadline=deadline, command=line)
        found = found.of(jobs, self.workers)
        left = found.of_other_code()
        with found.locked():  # a second process of the same command fails here
            if self.chosen.fresh:
                for each in (found, *(replace(found, folder=folder) for folder in left)):
                    each.clear()
            elif found.any():
                notice("resuming this command from its checkpoint (--fresh starts over)")
            elif left:
                notice("the checkpoint of this command was made by another version of the code: "
                       "starting over (--fresh removes the checkpoint)")  # fmt: skip
            else:
                for other in found.others():
                    if is_variation(other.command, line):
                        size = f"{other.size / 1e6:.1f} MB"
                        notice(f"an unfinished run with other options is kept ({size}): "
                               f"`{other.command}` continues it")  # fmt: skip
        return found


def is_variation(command: str, line: str) -> bool:
    """Return True if two command lines train the same methods with other options.

    >>> is_variation("recollect run a er --seeds 4", "recollect run a er --seeds 5")
    True
    >>> is_variation("recollect run a er --time-limit 2h", "recollect run a er")
    False
    """
    words, others = (without_limit(shlex.split(each)) for each in (command, line))
    targets = [
        list(takewhile(lambda word: not word.startswith("-"), each)) for each in (words, others)
    ]
    return words != others and targets[0] == targets[1]


def without_limit(words: list[str]) -> list[str]:
    """Leave out the time limit, which changes nothing but when a command stops."""
    if "--time-limit" in words:
        at = words.index("--time-limit")
        words = words[:at] + words[at + 2 :]
    return words


def runner_named(where: str | None) -> OnRay | None:
    """Return the runner for the option --on; None to train in local processes."""
    if where is None:
        return None
    name, colon, address = where.partition(":")
    if name != "ray" or (colon and not address):
        raise InputError(
            f"--on {where!r} is not supported: give ray (a local cluster) or ray:ADDRESS"
        )
    from recollect.experiments.on_ray import OnRay

    return OnRay(where if address.startswith("//") else address or None)


def check_folder(folder: Path | None) -> None:
    """Raise an error if the folder of data sets does not exist."""
    if folder and not folder.is_dir():
        raise InputError(f"there is no folder {str(folder)!r}: correct --data-dir")
