"""Several fleets: on a CPU one process per core with one thread each, on a GPU one by one."""

from __future__ import annotations

import math
import multiprocessing
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

import torch

from recollect.errors import InputError, RecollectError, SlowerWarning, TimeUp
from recollect.train.checkpoint import Checkpoints
from recollect.train.devices import cores, free_memory, one_thread
from recollect.train.fingerprint import stream_fingerprint
from recollect.train.job import Job, Result
from recollect.train.loop import check, train
from recollect.train.slower import say_slower

__all__ = ["Event", "ResultStore", "Runner", "Work", "cores", "one_thread", "train_all"]

LARGEST_FLEET = 16
ROWS_IN_CACHE = 1536


class ResultStore(Protocol):
    """Where the results of finished runs are stored."""

    def find(self, job: Job) -> list[Result | None]:
        """The result of every run of a job, or None where it is not stored."""

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

    On a CPU each job is spread over the cores: small tensors gain nothing from a second thread,
    so every core has a process with one thread and a share of the runs. On a GPU a job is one
    fleet, or several where one does not fit into its memory. `progress` is called with the steps
    that were taken, summed over a fleet's runs, `finished` with every job whose results are
    complete, and `notice` with what a person should know.

    With `checkpoints`, jobs continue where they were saved last. At their time limit, jobs in
    training stop with `TimeUp`, and no others begin; the next call continues with what was saved.
    Runs that are in the `store` are not trained again, and those of every finished fleet are added
    to it. A `runner` trains elsewhere than on this machine.
    """
    for job in jobs:
        check(job)
    if workers is None:
        workers = cores()
    if workers < 1:
        raise InputError(f"the number of workers must be at least 1, not {workers}")
    for job in jobs:
        stream_fingerprint(job.stream)  # read once, here: forked processes share it
    on_gpu = any(job.device.type == "cuda" for job in jobs)
    pieces = [
        (number, piece)
        for number, job in enumerate(jobs)
        for piece in ([job] if on_gpu else _pieces(job, jobs, workers))
    ]
    results: list[list[Result]] = [[] for _ in pieces]
    stored = [store.find(piece) if store else [None] * len(piece.runs) for _, piece in pieces]
    left = [index for index, found in enumerate(stored) if not all(found)]

    def report(index: int, steps: int) -> None:
        progress(jobs[pieces[left[index]][0]], steps)

    def complete(index: int, found: list[Result]) -> None:
        results[index] = found
        number, _ = pieces[index]
        of_job = [results[i] for i, (n, _) in enumerate(pieces) if n == number]
        if all(of_job):
            finished(jobs[number], list(chain(*of_job)))

    for index, found in enumerate(stored):
        known = [run for run in found if run is not None]
        number, piece = pieces[index]
        if known:
            progress(jobs[number], piece.steps * len(known))
        if len(known) == len(found):
            complete(index, known)
    rest = [_without(pieces[index][1], stored[index]) for index in left]
    work = Work(rest, checkpoints, report, notice)
    events = runner(work) if runner else work.on_gpu() if on_gpu else work.on_cores(workers)
    stopped: list[TimeUp] = []
    for index, kind, value in events:
        if kind == "steps":
            report(index, value * len(rest[index].runs))
        elif kind == "stopped":
            stopped.append(value)
        else:
            if store:
                store.add(rest[index], value)
            new = iter(value)
            complete(left[index], [run or next(new) for run in stored[left[index]]])
    if stopped:
        raise stopped[0]
    if checkpoints:
        checkpoints.clear()
    return list(chain(*results))


def _pieces(job: Job, jobs: Sequence[Job], workers: int) -> list[Job]:
    """The fleets of a job: large ones train faster, but every worker should have some.

    With large batches, more runs at a time only push each other out of the processor's cache.
    """
    total = sum(len(other.runs) for other in jobs)
    size = max(math.ceil(len(job.runs) / workers), math.ceil(total / (2 * workers)))
    return job.split(min(size, LARGEST_FLEET, max(1, ROWS_IN_CACHE // job.rows)))


def _without(piece: Job, stored: Sequence[Result | None]) -> Job:
    """The runs of a piece that are not stored."""
    pairs = zip(piece.runs, stored, strict=True)
    return replace(piece, runs=tuple(run for run, result in pairs if result is None))


Event = tuple[int, str, Any]


@dataclass
class Work:
    """Pieces to be trained, each a fleet."""

    pieces: list[Job]
    checkpoints: Checkpoints | None
    report: Callable[[int, int], None]
    notice: Notice

    def on_cores(self, workers: int) -> Iterator[Event]:
        """What happens: (index, "steps", n), (index, "results", [...]), (index, "stopped", why)."""
        if workers == 1 or len(self.pieces) == 1 or sys.platform == "win32":
            yield from self._here()
            return
        waiting = sorted(enumerate(self.pieces), key=lambda piece: -piece[1].work)
        busy: dict[Connection, tuple[BaseProcess, int]] = {}
        try:
            while waiting or busy:
                while waiting and len(busy) < workers:
                    index, piece = waiting.pop(0)
                    connection, process = _start(piece, self.checkpoints)
                    busy[connection] = (process, index)
                ready = wait(list(busy))
                for connection in [c for c in busy if c in ready]:
                    process, index = busy[connection]
                    try:
                        kind, value = connection.recv()
                    except EOFError:
                        process.join()
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
                process.terminate()
                process.join()

    def _here(self) -> Iterator[Event]:
        for index, piece in enumerate(self.pieces):
            try:
                with one_thread():
                    results = train(piece, partial(self._share, index, piece, []), self.checkpoints)
            except TimeUp as limit:
                yield index, "stopped", limit
                return
            yield index, "results", results

    def on_gpu(self) -> Iterator[Event]:
        """The same, one fleet after the other; one that does not fit is split, and says so."""
        most = max((len(piece.runs) for piece in self.pieces), default=1)
        for index, piece in enumerate(self.pieces):
            results: list[Result] = []
            waiting = piece.split(most)
            try:
                while waiting:
                    part, *others = waiting
                    taken: list[int] = []
                    share = partial(self._share, index, part, taken)
                    try:
                        results += train(part, share, self.checkpoints)
                        waiting = others
                    except torch.OutOfMemoryError:
                        if len(part.runs) == 1:
                            raise RecollectError(
                                "one run alone does not fit into the GPU's memory: "
                                "take a smaller buffer or --device cpu"
                            ) from None
                        self.report(index, -sum(taken))  # they will be taken again
                        most = math.ceil(len(part.runs) / 2)
                        self.notice(f"{len(part.runs)} runs at once do not fit into the GPU's "
                                    f"memory: {most} at a time")  # fmt: skip
                        waiting = [half for each in waiting for half in each.split(most)]
                    free_memory()
            except TimeUp as limit:
                yield index, "stopped", limit
                return
            yield index, "results", results

    def _share(self, index: int, part: Job, taken: list[int], steps: int) -> None:
        taken.append(steps * len(part.runs))
        self.report(index, taken[-1])


Runner = Callable[[Work], Iterator[Event]]


def _start(piece: Job, checkpoints: Checkpoints | None) -> tuple[Connection, BaseProcess]:
    """A process that trains one piece; a forked one shares the data set that is already loaded."""
    context: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(piece, theirs, checkpoints), daemon=True)
    process.start()
    theirs.close()
    return ours, process


def _work(piece: Job, connection: Connection, checkpoints: Checkpoints | None) -> None:
    # Ctrl+C reaches every process of a terminal. It is for the one that started this one, which
    # ends it; otherwise each would print a traceback of its own.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _pass_warnings_on(connection)
    try:
        with one_thread():
            results = train(piece, lambda steps: connection.send(("steps", steps)), checkpoints)
        connection.send(("results", results))
    except TimeUp as limit:
        connection.send(("stopped", limit))
    except BrokenPipeError:
        pass
    except RecollectError as error:
        connection.send(("error", error))
    except Exception:
        trace = traceback.format_exc()
        connection.send(("error", RuntimeError(f"training failed in a process:\n{trace}")))


def _pass_warnings_on(connection: Connection) -> None:
    """Let the process that started this one warn of slower steps: once, and not every process."""
    usual = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: Any) -> None:
        if issubclass(category, SlowerWarning):
            connection.send(("slower", str(message)))
        else:
            usual(message, category, *where)

    warnings.showwarning = show  # type: ignore[assignment]
