"""Train several fleets: in one process per CPU core, or one after the other on a GPU."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

import torch

from recollect.errors import InputError, RecollectError, TimeUp
from recollect.train.checkpoint import Checkpoints
from recollect.train.devices import cores, free_memory, one_thread
from recollect.train.execution import say_slower
from recollect.train.interrupts import ending, noting_signals, stop_asked, stopped_words
from recollect.train.job import Job
from recollect.train.loop import train
from recollect.train.result import Result
from recollect.train.worker import start_worker

LARGEST_FLEET = 16
ROWS_IN_CACHE = 1536
POLL_SECONDS = 0.2


class ResultStore(Protocol):
    """The interface of a store of finished results."""

    def find(self, job: Job) -> list[Result | None]:
        """The result of every run of a job, or None if it is not stored."""

    def add(self, job: Job, results: Sequence[Result]) -> None:
        """Store the results of a job's runs."""


Progress = Callable[[Job, int], None]
Finished = Callable[[Job, list[Result]], None]
Notice = Callable[[str], None]


def train_all(
    jobs: Sequence[Job],
    *,
    workers: int | None = None,
    progress: Progress = lambda job, steps: None,
    finished: Finished = lambda job, results: None,
    notice: Notice = lambda text: None,
    checkpoints: Checkpoints | None = None,
    store: ResultStore | None = None,
    runner: Runner | None = None,
) -> list[Result]:
    """Train all jobs and return their results in order.

    On a CPU each job is divided among the cores: every core has a process with one thread and a
    share of the runs, since small tensors do not benefit from more threads. On a GPU a job is one
    fleet, or several if it does not fit into memory. `progress` is called with the number of steps
    taken, summed over a fleet's runs, `finished` with every job whose results are complete, and
    `notice` with messages for the user.

    With `checkpoints`, jobs continue from their last saved state. At the time limit, jobs in
    training stop with `TimeUp` and no others start; the next call continues from the saved state.
    Runs in the `store` are not trained again, and the results of every finished fleet are added to
    it. A `runner` trains the jobs elsewhere, for example on a cluster.

    Ctrl+C and SIGTERM stop the training like a time limit; `KeyboardInterrupt` and `Terminated` say
    what was saved. A second signal, or the first without `checkpoints`, ends it at once.
    """
    for job in jobs:
        job.check()
    here = any(job.details.callbacks for job in jobs)
    if here and (runner or workers not in (None, 1)):
        raise InputError("callbacks are called in this process: leave out workers, or pass 1")
    if workers is None:
        workers = 1 if here else cores()
    if not isinstance(workers, int) or workers < 1:
        raise InputError(f"workers must be a whole number of at least 1, not {workers!r}")
    with checkpoints.locked() if checkpoints else nullcontext():
        return _train_all(jobs, workers, progress, finished, notice, checkpoints, store, runner)


def _train_all(
    jobs: Sequence[Job],
    workers: int,
    progress: Progress,
    finished: Finished,
    notice: Notice,
    checkpoints: Checkpoints | None,
    store: ResultStore | None,
    runner: Runner | None,
) -> list[Result]:
    on_gpu = any(job.device.type == "cuda" for job in jobs)
    done = 0
    pieces = [
        _Piece(number, part, store.find(part) if store else [None] * len(part.runs))
        for number, job in enumerate(jobs)
        for part in ([job] if on_gpu else _pieces(job, jobs, workers))
    ]

    def complete(piece: _Piece, found: list[Result]) -> None:
        piece.results = found
        of_job = [other.results for other in pieces if other.number == piece.number]
        if all(of_job):
            finished(jobs[piece.number], list(chain(*of_job)))

    def advance(piece: _Piece, steps: int) -> None:
        nonlocal done
        done += steps
        progress(jobs[piece.number], steps)

    for piece in pieces:
        known = [run for run in piece.stored if run is not None]
        if known:
            advance(piece, piece.job.steps * len(known))
        if len(known) == len(piece.stored):
            complete(piece, known)
    left = [piece for piece in pieces if not piece.results]
    rest = [piece.rest for piece in left]

    work = Work(rest, checkpoints, lambda index, steps: advance(left[index], steps), notice)
    stopped: list[BaseException] = []
    with noting_signals(saves=checkpoints is not None) as came:
        if runner:
            events = runner(work)
        else:
            events = work.in_turn(nullcontext) if on_gpu else work.on_cores(workers)
        try:
            with closing(events):
                for index, kind, value in events:
                    if kind == "steps":
                        work.report(index, value * len(rest[index].runs))
                    elif kind == "stopped":
                        stopped.append(value)
                    else:
                        if store:
                            store.add(rest[index], value)
                        new = iter(value)
                        complete(left[index], [run or next(new) for run in left[index].stored])
        except (KeyboardInterrupt, RecollectError) as error:
            stopped = [error]
    if came:
        total = sum(job.total_steps for job in jobs)
        stored = sum(len(piece.results) for piece in pieces) if store else 0
        words = stopped_words(done, total, stored, checkpoints, *stopped)
        raise ending(came[0], words) from None
    if stopped:
        raise stopped[0]
    if checkpoints:
        checkpoints.clear()
    return [run for piece in pieces for run in piece.results]


def _pieces(job: Job, jobs: Sequence[Job], workers: int) -> list[Job]:
    """Divide a job into fleets: large ones are faster, but every worker should have some.

    With large batches, larger fleets only exceed the processor's cache.
    """
    total = sum(len(other.runs) for other in jobs)
    size = max(math.ceil(len(job.runs) / workers), math.ceil(total / (2 * workers)))
    return job.split(min(size, LARGEST_FLEET, max(1, ROWS_IN_CACHE // job.rows)))


@dataclass
class _Piece:
    """A fleet of the job with this number, with its stored results and its final results."""

    number: int
    job: Job
    stored: list[Result | None]
    results: list[Result] = field(default_factory=list)

    @property
    def rest(self) -> Job:
        """The runs that are not stored."""
        pairs = zip(self.job.runs, self.stored, strict=True)
        return self.job.with_runs(tuple(run for run, result in pairs if result is None))


Event = tuple[int, str, Any]
Events = Generator[Event, None, None]


@dataclass
class Work:
    """Jobs to train, each as a fleet."""

    pieces: list[Job]
    checkpoints: Checkpoints | None
    report: Callable[[int, int], None]
    notice: Notice

    def on_cores(self, workers: int) -> Events:
        """Train on CPU cores; yields (index, kind, value) of "steps", "results" and "stopped"."""
        if workers == 1 or len(self.pieces) == 1 or sys.platform == "win32":
            yield from self.in_turn(one_thread)
            return
        waiting = sorted(enumerate(self.pieces), key=lambda piece: -piece[1].work)
        busy: dict[Connection, tuple[BaseProcess, int]] = {}
        try:
            while waiting or busy:
                if stop_asked():
                    waiting.clear()
                    for process, _ in busy.values():
                        process.terminate()  # it saves its state and stops
                while waiting and len(busy) < workers:
                    index, piece = waiting.pop(0)
                    connection, process = start_worker(piece, self.checkpoints)
                    busy[connection] = (process, index)
                ready = wait(list(busy), POLL_SECONDS)
                for connection in [c for c in busy if c in ready]:
                    process, index = busy[connection]
                    try:
                        kind, value = connection.recv()
                    except EOFError:
                        process.join()
                        if stop_asked():  # it ended before its SIGTERM handler was installed
                            del busy[connection]
                            continue
                        raise RecollectError(
                            f"a training process ended early (exit status {process.exitcode}): "
                            f"the machine may be out of memory; try fewer seeds or --workers 1"
                        ) from None
                    if kind == "error":
                        raise value
                    if kind == "slower":
                        say_slower(value)
                        continue
                    if kind in ("results", "stopped"):
                        del busy[connection]
                        process.join()
                    if kind == "stopped":
                        waiting.clear()
                    yield index, kind, value
        finally:
            for process, _ in busy.values():
                process.kill()
            for process, _ in busy.values():
                process.join()

    def in_turn(self, around: Callable[[], AbstractContextManager[None]]) -> Events:
        """Train one fleet after the other, each in a context, in this process.

        On a GPU, fleets that do not fit in its memory are split.
        """
        most = max((len(piece.runs) for piece in self.pieces), default=1)
        for index, piece in enumerate(self.pieces):
            results: list[Result] = []
            waiting = piece.split(most)
            while waiting:
                if stop_asked():
                    return
                part, *others = waiting
                taken: list[int] = []
                try:
                    with around():
                        share = partial(self._share, index, part, taken)
                        results += train(part, share, self.checkpoints)
                    waiting = others
                except TimeUp as limit:
                    yield index, "stopped", limit
                    return
                except torch.OutOfMemoryError:
                    if len(part.runs) == 1:
                        raise RecollectError(
                            "a single run does not fit into the GPU's memory: "
                            "use a smaller buffer or --device cpu"
                        ) from None
                    self.report(index, -sum(taken))  # they will be taken again
                    most = math.ceil(len(part.runs) / 2)
                    self.notice(
                        f"{len(part.runs)} runs do not fit into the GPU's memory together: "
                        f"training {most} at a time"
                    )
                    waiting = [half for each in waiting for half in each.split(most)]
                if part.device.type == "cuda":
                    free_memory()
            yield index, "results", results

    def _share(self, index: int, part: Job, taken: list[int], steps: int) -> None:
        taken.append(steps * len(part.runs))
        self.report(index, taken[-1])


Runner = Callable[[Work], Events]
