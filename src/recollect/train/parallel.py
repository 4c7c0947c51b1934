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
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

import torch

from recollect.errors import InputError, RecollectError, SlowerWarning, TimeUp
from recollect.train.checkpoint import Checkpoints
from recollect.train.devices import cores, free_memory, one_thread
from recollect.train.job import Job, Result
from recollect.train.loop import check, train
from recollect.train.slower import say_slower

__all__ = ["Event", "Runner", "Shelf", "Work", "cores", "one_thread", "train_all"]

LARGEST_FLEET = 16
ROWS_IN_CACHE = 1536


class Shelf(Protocol):
    """Where finished runs are kept."""

    def find(self, job: Job) -> list[Result | None]:
        """The result of every run of a job, or None if it is not there."""

    def add(self, job: Job, results: Sequence[Result]) -> None:
        """Keep the results of a job's runs."""


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
    shelf: Shelf | None = None,
    runner: Runner | None = None,
) -> list[Result]:
    """Train all jobs and return their results in order.

    On a CPU each job is spread over the cores: small tensors gain nothing from a second thread,
    so every core has a process with one thread and a share of the runs. On a GPU a job is one
    fleet, or several where one does not fit into its memory. `progress` is told of steps as they
    are taken, summed over a fleet's runs, `finished` of every job whose results are complete,
    and `notice` of what a person should know.

    With `checkpoints`, jobs continue where they were saved last. If their time limit comes, those
    at work stop with `TimeUp`, and no others begin; what they keep is for the next call. Runs
    that are on the `shelf` are not trained again, and every fleet that is done goes there. A
    `runner` does the work elsewhere than on this machine.
    """
    for job in jobs:
        check(job)
    if workers is None:
        workers = cores()
    if workers < 1:
        raise InputError(f"the number of workers must be at least 1, not {workers}")
    on_gpu = any(job.device.type == "cuda" for job in jobs)
    pieces = [
        (number, piece)
        for number, job in enumerate(jobs)
        for piece in ([job] if on_gpu else _pieces(job, jobs, workers))
    ]
    parts: dict[int, dict[int, list[Result]]] = {number: {} for number in range(len(jobs))}
    missing = [sum(1 for n, _ in pieces if n == number) for number in range(len(jobs))]
    done: dict[int, list[Result]] = {}
    stopped: list[TimeUp] = []
    known = [shelf.find(piece) if shelf else [None] * len(piece.runs) for _, piece in pieces]
    left = [place for place, found in enumerate(known) if not all(found)]

    def tell(place: int, steps: int) -> None:
        number, _ = pieces[left[place]]
        progress(jobs[number], steps)

    def keep(place: int, results: list[Result]) -> None:
        number, _ = pieces[place]
        parts[number][place] = results
        missing[number] -= 1
        if missing[number] == 0:
            done[number] = [r for _, some in sorted(parts[number].items()) for r in some]
            finished(jobs[number], done[number])

    for place, found in enumerate(known):
        there = [run for run in found if run is not None]
        if there:
            progress(jobs[pieces[place][0]], pieces[place][1].steps * len(there))
        if len(there) == len(found):
            keep(place, there)
    rest = [_missing(pieces[place][1], known[place]) for place in left]
    work = Work(rest, checkpoints, tell, notice)
    events = runner(work) if runner else work.on_gpu() if on_gpu else work.on_cores(workers)
    for place, kind, value in events:
        if kind == "steps":
            tell(place, value * len(rest[place].runs))
        elif kind == "stopped":
            stopped.append(value)
        else:
            if shelf:
                shelf.add(rest[place], value)
            new = iter(value)
            keep(left[place], [run or next(new) for run in known[left[place]]])
    if stopped:
        raise stopped[0]
    if checkpoints:
        checkpoints.clear()
    return [result for number in range(len(jobs)) for result in done[number]]


def _pieces(job: Job, jobs: Sequence[Job], workers: int) -> list[Job]:
    """The fleets of a job: large ones train faster, but every worker should have some.

    With large batches, more runs at a time only push each other out of the processor's cache.
    """
    total = sum(len(other.runs) for other in jobs)
    size = max(math.ceil(len(job.runs) / workers), math.ceil(total / (2 * workers)))
    return job.split(min(size, LARGEST_FLEET, max(1, ROWS_IN_CACHE // job.rows)))


def _missing(piece: Job, known: Sequence[Result | None]) -> Job:
    """The runs of a piece that are not known."""
    pairs = zip(piece.runs, known, strict=True)
    return replace(piece, runs=tuple(run for run, result in pairs if result is None))


Event = tuple[int, str, Any]


@dataclass
class Work:
    """Pieces to be trained, each a fleet."""

    pieces: list[Job]
    checkpoints: Checkpoints | None
    tell: Callable[[int, int], None]
    notice: Notice

    def on_cores(self, workers: int) -> Iterator[Event]:
        """What happens: (place, "steps", n), (place, "results", [...]), (place, "stopped", why)."""
        if workers == 1 or len(self.pieces) == 1 or sys.platform == "win32":
            yield from self._here()
            return
        waiting = sorted(enumerate(self.pieces), key=lambda piece: -piece[1].work)
        busy: dict[Connection, tuple[BaseProcess, int]] = {}
        try:
            while waiting or busy:
                while waiting and len(busy) < workers:
                    place, piece = waiting.pop(0)
                    connection, process = _start(piece, self.checkpoints)
                    busy[connection] = (process, place)
                ready = wait(list(busy))
                for connection in [c for c in busy if c in ready]:
                    process, place = busy[connection]
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
                    yield place, kind, value
        finally:
            for process, _ in busy.values():
                process.terminate()
                process.join()

    def _here(self) -> Iterator[Event]:
        for place, piece in enumerate(self.pieces):
            try:
                with one_thread():
                    results = train(piece, partial(self._share, place, piece, []), self.checkpoints)
            except TimeUp as limit:
                yield place, "stopped", limit
                return
            yield place, "results", results

    def on_gpu(self) -> Iterator[Event]:
        """The same, one fleet after the other; one that does not fit is split, and says so."""
        most = max((len(piece.runs) for piece in self.pieces), default=1)
        for place, piece in enumerate(self.pieces):
            results: list[Result] = []
            waiting = piece.split(most)
            try:
                while waiting:
                    part, *others = waiting
                    told: list[int] = []
                    report = partial(self._share, place, part, told)
                    try:
                        results += train(part, report, self.checkpoints)
                        waiting = others
                    except torch.OutOfMemoryError:
                        if len(part.runs) == 1:
                            raise RecollectError(
                                "one run alone does not fit into the GPU's memory: "
                                "take a smaller buffer or --device cpu"
                            ) from None
                        self.tell(place, -sum(told))  # they will be taken again
                        most = math.ceil(len(part.runs) / 2)
                        self.notice(f"{len(part.runs)} runs at once do not fit into the GPU's "
                                    f"memory: {most} at a time")  # fmt: skip
                        waiting = [half for each in waiting for half in each.split(most)]
                    free_memory()
            except TimeUp as limit:
                yield place, "stopped", limit
                return
            yield place, "results", results

    def _share(self, place: int, part: Job, told: list[int], steps: int) -> None:
        told.append(steps * len(part.runs))
        self.tell(place, told[-1])


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
