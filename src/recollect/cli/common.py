"""Options and training code shared by several commands."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from recollect.cli.hyperparameters import add_hyperparameters
from recollect.cli.parser import duration, number
from recollect.cli.screen import notice, showing_progress
from recollect.errors import InputError
from recollect.experiments import Results
from recollect.experiments.files import write_runs
from recollect.experiments.plan import Plan
from recollect.experiments.recorder import Recorder
from recollect.experiments.store import Store
from recollect.experiments.tensorboard import log_results, summary_writer
from recollect.files import check_new
from recollect.methods import Method, every_method
from recollect.streams import BENCHMARKS, Stream
from recollect.streams.data.files import cache_folder
from recollect.train import Checkpoints, Details, Job, Result, device_named, train_all
from recollect.train.details import CURVE_EXAMPLES, CURVE_STEPS
from recollect.train.optimisation import NUMBERS, Optimisation
from recollect.train.parallel import cores

if TYPE_CHECKING:
    from recollect.experiments.on_ray import OnRay

Methods = Mapping[str, type[Method]]

SHARED: Mapping[str, dict[str, Any]] = {
    "--force": {"action": "store_true", "help": "overwrite an existing file"},
    "--from": {
        "type": Path, "nargs": "+", "dest": "files", "metavar": "FILE",
        "help": "read runs from files that --json wrote, .jsonl files or folders, instead of the "
                "store (unless --store is given too)",
    },
    "--store": {
        "type": Path, "metavar": "FILE",
        "help": "file of the result store (default: $RECOLLECT_STORE, or a file in the user's "
                "data folder)",
    },
    "--data-dir": {
        "type": Path, "metavar": "DIR",
        "help": "folder with data files, searched before the cache (default: $RECOLLECT_DATA)",
    },
    "--class-order": {
        "metavar": "ORDER",
        "help": "seed: a random class order for each seed; a number: the same random order for "
                "all seeds (default: by class number)",
    },
}  # fmt: skip


def add_common(parser: argparse.ArgumentParser) -> None:
    """Add the options common to all training commands."""
    # fmt: off
    add = parser.add_argument
    add("--seeds", default="10", metavar="SEEDS",
        help="10: seeds 0 to 9 (default); 3-5: a range; 3,7: a list")
    add("--json", type=Path, metavar="FILE", help="write the results, one object per run")
    add_shared(parser, "--force", "--data-dir")
    add("--epochs", type=int, metavar="N", help="passes over each task (default: the paper's)")
    add("--workers", type=int, metavar="N",
        help="number of processes on a CPU (default: all cores)")
    add("--device", default="auto", metavar="NAME",
        help="cpu, cuda or cuda:N (default: a GPU if available)")
    add("--full-precision", action="store_true",
        help="do not use bfloat16 on a GPU (slower)")
    add("--time-limit", type=duration, metavar="TIME",
        help="save and stop after this time, such as 90s, 20m or 2h; run the same command again "
             "to continue")
    add("--fresh", action="store_true",
        help="start over: ignore saved checkpoints and stored results")
    add("--on", metavar="WHERE",
        help="train on Ray: ray for a local cluster, or ray:ADDRESS")
    add("--tensorboard", type=Path, metavar="DIR", help="write TensorBoard logs to this folder")
    add("--curves", type=int, nargs="?", const=CURVE_STEPS, default=0, metavar="N",
        help=f"record loss and accuracy every N steps (without N: {CURVE_STEPS})")
    add("--curve-examples", type=int, default=CURVE_EXAMPLES, metavar="N",
        help="maximum number of test examples per task for each point of a curve "
             f"(default: {CURVE_EXAMPLES})")
    add("--confusion", action="store_true", help="record confusion matrices after the last task")
    add("--save-networks", type=Path, metavar="DIR",
        help="save the trained networks to this folder")
    # fmt: on
    add_shared(parser, "--store")


def add_shared(parser: argparse.ArgumentParser, *names: str) -> None:
    """Add some of the options that several commands share."""
    for name in names:
        parser.add_argument(name, **SHARED[name])


def add_target(parser: argparse.ArgumentParser, methods: Methods | None, use: str) -> None:
    """Add a benchmark, a method, and an option per hyper-parameter of these methods (or all)."""
    known = every_method()
    parser.add_argument("benchmark", help=f"one of: {', '.join(BENCHMARKS)}")
    parser.add_argument("method", help=f"one of: {', '.join(known)}; or path/to/file.py:Class, or "
                                       "package.module:Class")  # fmt: skip
    sizes = {"lr": "learning rate", "bs": "batch size", "mbs": "replay batch size"}
    if methods is None:
        methods, use = known, f"{use}. For one method: {parser.prog} BENCHMARK METHOD --help"
    if methods and not any(kind.replay for kind in methods.values()):
        del sizes["mbs"]
    add_hyperparameters(parser, methods, use, sizes, nargs="+")


def add_optimiser(parser: argparse.ArgumentParser, *, endless: bool = False) -> None:
    """Add the options of the optimiser and the learning rate schedule.

    An `endless` stream has no tasks, and each option takes a single value.
    """
    use = None if endless else "with several values, all combinations are trained"
    add = parser.add_argument_group("optimiser", use).add_argument
    # fmt: off
    add("--optimiser", default="SGD", metavar="NAME",
        help=f"{'SGD, Adam, AdamW, or any of torch' if endless else 'SGD, Adam or AdamW'} "
             "(default: SGD)")
    add("--nesterov", action="store_true", help="use Nesterov momentum with SGD")
    add("--schedule", default="constant", metavar="NAME",
        help="learning rate schedule: constant, step or cosine (default: constant)")
    if endless:
        add("--schedule-steps", type=int, metavar="N",
            help="number of steps over which the schedule runs")
    else:
        add("--schedule-per", default="stream", metavar="WHAT",
            help="stream, or task to restart the schedule in each task (default: stream)")
    # fmt: on
    own = parser.get_default("hyperparameters")
    numbers = {name: text for name, text in NUMBERS.items() if name not in own}
    for name, text in numbers.items():
        spellings = dict.fromkeys((f"--{name.replace('_', '-')}", f"--{name}"))
        add(*spellings, type=number, metavar="VALUE", nargs=None if endless else "+", help=text)
    parser.set_defaults(hyperparameters=(*own, *numbers))


def chosen_optimisation(chosen: argparse.Namespace) -> Optimisation:
    """Return the optimiser and schedule from the options."""
    return Optimisation(chosen.optimiser, chosen.nesterov, chosen.schedule, chosen.schedule_per)


def train(
    chosen: argparse.Namespace,
    jobs: Sequence[Job],
    finished: Callable[[Job, list[Result]], None] = lambda job, results: None,
) -> Results:
    """Train the jobs of a command with a progress bar, resuming from checkpoints.

    Runs in the result store are not trained again, and new runs are added to it.
    """
    elsewhere = runner_named(chosen.on)
    store = Store(chosen.store)
    recording = Recorder(store, chosen.line, chosen.fresh)
    for job in jobs:
        job.check()
    store.add([])  # fail before training if the store cannot be written
    checkpoints = _checkpoints(chosen, jobs)
    there = sum(run is not None for job in jobs for run in recording.find(job))
    if there:
        total = sum(len(job.runs) for job in jobs)
        notice(f"{there} of {total} runs are already in the store (--fresh trains them again)")

    def done(job: Job, results: list[Result]) -> None:
        finished(job, results)
        if chosen.tensorboard:
            log_results(results, chosen.tensorboard)

    with showing_progress(jobs) as progress:
        return recording.results(
            train_all(
                jobs,
                workers=elsewhere.workers if elsewhere else workers(chosen),
                progress=progress,
                finished=done,
                notice=notice,
                checkpoints=checkpoints,
                store=recording,
                runner=elsewhere,
            )
        )


def _checkpoints(chosen: argparse.Namespace, jobs: Sequence[Job]) -> Checkpoints:
    """Return the checkpoints of the command; --fresh removes existing ones."""
    deadline = None if chosen.time_limit is None else time.monotonic() + chosen.time_limit
    found = Checkpoints(cache_folder() / "unfinished", deadline=deadline)
    found = found.of(jobs, workers(chosen))
    left = found.of_other_code()
    with found.locked():  # a second process of the same command fails here
        if chosen.fresh:
            for each in (found, *(replace(found, folder=folder) for folder in left)):
                each.clear()
        elif found.any():
            notice("resuming this command from its checkpoint (--fresh starts over)")
        elif left:
            notice("the checkpoint of this command was made by another version of the code: "
                   "starting over (--fresh removes the checkpoint)")  # fmt: skip
    return found


def jobs_of(
    chosen: argparse.Namespace, plans: Sequence[Plan], stream: Stream, device: torch.device
) -> list[Job]:
    """Build the jobs of some plans, with the paper's network."""
    jobs = [job for each in plans for job in each.jobs(stream, None, device, chosen.full_precision)]
    return [replace(job, details=details_of(chosen)) for job in jobs]


def details_of(chosen: argparse.Namespace) -> Details:
    """Return the options for curves, confusion matrices and saved networks."""
    return Details.of(chosen.curves, chosen.curve_examples, chosen.confusion, chosen.save_networks)


def left_to_train(chosen: argparse.Namespace, jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs with runs that are not in the store."""
    recording = Recorder(Store(chosen.store), chosen.line, chosen.fresh)
    return [job for job in jobs if not all(recording.find(job))]


def write_results(chosen: argparse.Namespace, results: Sequence[Result]) -> None:
    """Write the results to the file of --json, if given."""
    if chosen.json:
        write_runs(chosen.json, results)


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


def checked_device(chosen: argparse.Namespace) -> torch.device:
    """Return the device to train on, after validating the common options.

    By default it is the best device of this machine or of the Ray cluster.
    """
    workers(chosen)
    details_of(chosen)
    elsewhere = runner_named(chosen.on) if chosen.device == "auto" else None
    device = elsewhere.device if elsewhere else device_named(chosen.device)
    if chosen.json:
        check_new(chosen.json, chosen.force, "--force")
    if chosen.tensorboard:
        summary_writer()
    check_folder(chosen.data_dir)
    return device


def check_folder(folder: Path | None) -> None:
    """Raise an error if the folder of data sets does not exist."""
    if folder and not folder.is_dir():
        raise InputError(f"there is no folder {str(folder)!r}: correct --data-dir")


def workers(chosen: argparse.Namespace) -> int:
    """Return the number of processes to use."""
    if chosen.workers is not None and chosen.workers < 1:
        raise InputError(f"the number of workers must be at least 1, not {chosen.workers}")
    return chosen.workers or cores()
