"""Several fleets at once: one process per core, one thread each."""

from __future__ import annotations

import math
import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from recollect.errors import InputError, RecollectError
from recollect.train.job import Job, Result
from recollect.train.loop import check, train

__all__ = ["cores", "train_all"]

LARGEST_FLEET = 16
ROWS_IN_CACHE = 1536

Progress = Callable[[Job, int], None]
Finished = Callable[[Job, list[Result]], None]


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def train_all(
    jobs: Sequence[Job],
    *,
    workers: int | None = None,
    progress: Progress = lambda job, steps: None,
    finished: Finished = lambda job, results: None,
) -> list[Result]:
    """Train all jobs, each spread over the cores, and return their results in order.

    Small tensors gain nothing from a second thread, so every core has a process with one thread
    and a share of the runs. `progress` is told of steps as they are taken, summed over a fleet's
    runs, and `finished` of every job whose results are complete.
    """
    for job in jobs:
        check(job)
    if workers is None:
        workers = cores()
    if workers < 1:
        raise InputError(f"the number of workers must be at least 1, not {workers}")
    pieces = [
        (number, piece) for number, job in enumerate(jobs) for piece in _pieces(job, jobs, workers)
    ]
    parts: dict[int, dict[int, list[Result]]] = {number: {} for number in range(len(jobs))}
    missing = [sum(1 for n, _ in pieces if n == number) for number in range(len(jobs))]
    done: dict[int, list[Result]] = {}

    def tell(place: int, steps: int) -> None:
        number, piece = pieces[place]
        progress(jobs[number], steps * len(piece.runs))

    for place, kind, value in _events([piece for _, piece in pieces], workers, tell):
        number, _ = pieces[place]
        if kind == "steps":
            tell(place, value)
            continue
        parts[number][place] = value
        missing[number] -= 1
        if missing[number] == 0:
            done[number] = [r for _, results in sorted(parts[number].items()) for r in results]
            finished(jobs[number], done[number])
    return [result for number in range(len(jobs)) for result in done[number]]


def _pieces(job: Job, jobs: Sequence[Job], workers: int) -> list[Job]:
    """The fleets of a job: large ones train faster, but every worker should have some.

    With large batches, more runs at a time only push each other out of the processor's cache.
    """
    total = sum(len(other.runs) for other in jobs)
    size = max(math.ceil(len(job.runs) / workers), math.ceil(total / (2 * workers)))
    return job.split(min(size, LARGEST_FLEET, max(1, ROWS_IN_CACHE // job.rows)))


Event = tuple[int, str, Any]


def _events(pieces: list[Job], workers: int, tell: Callable[[int, int], None]) -> Iterator[Event]:
    """What happens while the pieces train: (place, "steps", n) and (place, "results", [...])."""
    if workers == 1 or len(pieces) == 1 or sys.platform == "win32":
        yield from _here(pieces, tell)
        return
    waiting = sorted(enumerate(pieces), key=lambda piece: -piece[1].work)
    busy: dict[Connection, tuple[BaseProcess, int]] = {}
    try:
        while waiting or busy:
            while waiting and len(busy) < workers:
                place, piece = waiting.pop(0)
                connection, process = _start(piece)
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
                if kind == "results":
                    del busy[connection]
                    process.join()
                yield place, kind, value
    finally:
        for process, _ in busy.values():
            process.terminate()
            process.join()


def _here(pieces: list[Job], tell: Callable[[int, int], None]) -> Iterator[Event]:
    for place, piece in enumerate(pieces):
        with one_thread():
            results = train(piece, partial(tell, place))
        yield place, "results", results


def _start(piece: Job) -> tuple[Connection, BaseProcess]:
    """A process that trains one piece; a forked one shares the data set that is already loaded."""
    context: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(piece, theirs), daemon=True)
    process.start()
    theirs.close()
    return ours, process


def _work(piece: Job, connection: Connection) -> None:
    try:
        with one_thread():
            results = train(piece, lambda steps: connection.send(("steps", steps)))
        connection.send(("results", results))
    except BrokenPipeError:
        pass
    except RecollectError as error:
        connection.send(("error", error))
    except Exception:
        trace = traceback.format_exc()
        connection.send(("error", RuntimeError(f"training failed in a process:\n{trace}")))


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for small tensors, and numbers too small to matter counted as zero."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        torch.set_flush_denormal(False)
