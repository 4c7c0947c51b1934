"""The loop over a stream: train on each task, and measure after it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from recollect.errors import InputError
from recollect.streams.stream import Batch, Stream
from recollect.train.compiled import compiler_exists
from recollect.train.evaluate import accuracy
from recollect.train.fleet import Fleet
from recollect.train.job import Job, Result
from recollect.train.metrics import Matrix, scores

__all__ = ["check", "train"]

Report = Callable[[int], None]

STRETCH = 4096
WORTH_COMPILING = 20_000


def check(job: Job) -> None:
    """Refuse a job whose method asks for what the stream does not give."""
    if job.kind.needs_boundaries and not job.stream.boundaries:
        raise InputError(
            f"{job.kind.title} needs to be told where a task ends, and {job.stream.name} "
            f"has no task boundaries"
        )


def train(job: Job, report: Report = lambda steps: None) -> list[Result]:
    """Train the runs of a job as one fleet and score them.

    `report` is called now and then with the number of steps that every run took since the last
    call.
    """
    check(job)
    stream = job.arriving
    fleet = _fleet(job)
    matrices: dict[str, list[Matrix]] = {}

    def measure(tasks: range) -> None:
        for setting, percent in accuracy(fleet, job.stream, tasks).items():
            row = np.full((fleet.runs, job.stream.tasks), np.nan)
            row[:, : len(tasks)] = percent.numpy()
            matrices.setdefault(setting, []).append(row)

    transfers = stream.tasks == job.stream.tasks > 1
    if transfers:
        measure(range(stream.tasks))
    seconds = 0.0
    loss = torch.zeros(fleet.runs)
    for task in range(stream.tasks):
        began = time.perf_counter()
        for x, y in _stretches(stream, fleet, task, job):
            before = fleet.steps
            loss = fleet.learn(x, y, job.batch)
            report(fleet.steps - before)
        seconds += time.perf_counter() - began
        last = task + 1 == stream.tasks
        measure(range(job.stream.tasks if last else task + 2))
    by_run = {setting: np.stack(rows, 1) for setting, rows in matrices.items()}
    return [
        _result(job, fleet, run, {s: m[run] for s, m in by_run.items()}, transfers, seconds, loss)
        for run in range(fleet.runs)
    ]


def _fleet(job: Job) -> Fleet:
    return Fleet(
        [run.method for run in job.runs],
        job.network,
        seeds=[run.seed for run in job.runs],
        lr=[run.lr for run in job.runs],
        classes=job.stream.classes,
        shape=job.stream.shape,
        memory=job.buffer or 0,
        replay=job.replay,
        stored=job.stream.dtype,
        compiled=job.steps >= WORTH_COMPILING and compiler_exists(),
    )


def _stretches(stream: Stream, fleet: Fleet, task: int, job: Job) -> Iterator[Batch]:
    """A task's examples as they arrive, a few thousand at a time, none across two parts."""
    length = max(STRETCH // job.batch, 1) * job.batch
    for epoch in range(job.epochs):
        start = 0
        for size in stream.parts(task):
            for first in range(start, start + size, length):
                until = min(first + length, start + size)
                index = stream.order(fleet.seeds, task, epoch, first, until)
                yield stream.pick(fleet.seeds, task, index)
            start += size


def _result(
    job: Job,
    fleet: Fleet,
    run: int,
    matrices: dict[str, Matrix],
    transfers: bool,
    seconds: float,
    loss: Tensor,
) -> Result:
    config = job.runs[run]
    own = {name: float(getattr(config.method, name)) for name in job.kind.hyperparameters()}
    sizes = {"bs": job.batch, **({"mbs": job.replay} if job.kind.uses_memory() else {})}
    trained = {s: m[1:] if transfers else m for s, m in matrices.items()}
    untrained = {s: m[0] for s, m in matrices.items()} if transfers else None
    made = {s: scores(m, untrained[s] if untrained else None) for s, m in trained.items()}
    return Result(
        benchmark=job.stream.name,
        method=job.kind.name,
        buffer=job.buffer,
        seed=config.seed,
        epochs=job.epochs,
        validation=job.validation,
        hyperparameters={"lr": config.lr, **own, **sizes},
        accuracy={s: m.accuracy for s, m in made.items()},
        fwt={s: m.fwt for s, m in made.items()},
        bwt={s: m.bwt for s, m in made.items()},
        forgetting={s: m.forgetting for s, m in made.items()},
        matrix={s: _plain(m) for s, m in trained.items()},
        untrained={s: m.tolist() for s, m in untrained.items()} if untrained else None,
        train_seconds=seconds / fleet.runs,
        steps=fleet.steps,
        memory_bytes=fleet.bytes_per_run,
        diverged=not bool(loss[run].isfinite()),
    )


def _plain(matrix: Matrix) -> list[list[float | None]]:
    return [[None if np.isnan(value) else float(value) for value in row] for row in matrix]
