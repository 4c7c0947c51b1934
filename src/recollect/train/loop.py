"""The loop over a stream: train on each task, and measure after it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from recollect.errors import InputError, TimeUp
from recollect.memory import Clock
from recollect.methods import Method
from recollect.train.checkpoint import Checkpoints, Saved
from recollect.train.devices import device_label, wait_for
from recollect.train.evaluate import accuracy
from recollect.train.fleet import Fleet
from recollect.train.job import Job, Result
from recollect.train.metrics import Matrix, scores
from recollect.train.source import Source

__all__ = ["check", "fleet_of", "train"]

Report = Callable[[int], None]

STRETCH = 4096
STEPS_ON_GPU = 512
BYTES_ON_GPU = 1 << 30


def check(job: Job) -> None:
    """Refuse a job whose method asks for what the stream does not give."""
    if job.kind.needs.boundaries and not job.stream.boundaries:
        raise InputError(
            f"{job.kind.title} needs to be told where a task ends, and {job.stream.name} "
            f"has no task boundaries"
        )
    if job.kind.needs.task_id and job.stream.setting != "class":
        raise InputError(
            f"{job.kind.title} must be told at a test which task an example belongs to, "
            f"and {job.stream.name} does not say so"
        )


def train(
    job: Job,
    report: Report = lambda steps: None,
    checkpoints: Checkpoints | None = None,
) -> list[Result]:
    """Train the runs of a job as one fleet and score them.

    `report` is called now and then with the number of steps that every run took since the last
    call. With `checkpoints`, the job continues where it was saved last and ends just as if it had
    never stopped; it raises `TimeUp` when their time limit comes.
    """
    check(job)
    name = job.key
    if checkpoints and (known := checkpoints.results(name)) is not None:
        report(job.steps)
        return known
    progress = Progress(job)
    saved = checkpoints.saved(name) if checkpoints else None
    if saved is not None and saved.facts["length"] == _stretch(job):
        progress.restore(saved)
        report(progress.reported)
    for steps in progress.advance():
        report(steps)
        if checkpoints and (checkpoints.time_is_up() or checkpoints.due()):
            checkpoints.save(name, progress.saved())
            if checkpoints.time_is_up():
                raise TimeUp(
                    f"the time limit came after {progress.reported:,} of {job.steps:,} steps; "
                    f"the same command continues"
                )
    results = progress.results()
    if checkpoints:
        checkpoints.finish(name, results)
    return results


class Progress:
    """A fleet on its way through a stream: how far it is, and what was measured so far."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.fleet = fleet_of(job)
        self.transfers = job.arriving.tasks == job.stream.tasks > 1
        self.reported = 0
        self._task = 0
        self._stretch = 0
        self._rehearsed = 0
        self._more_epochs: int | None = None
        self._seconds = 0.0
        self._loss = torch.zeros(self.fleet.runs)
        self._rows: dict[str, list[Matrix]] = {}

    def advance(self) -> Iterator[int]:
        """Learn stretch by stretch to the end, evaluating after every task.

        Yields how many of the job's steps each stretch stands for: rehearsed examples take more
        steps than were planned, and epochs that a method asks for at a task's end count as none.
        """
        stream, fleet = self.job.arriving, self.fleet
        if self.transfers and not self._rows:
            self._measure(range(stream.tasks))
        while self._task < stream.tasks:
            pick = partial(stream.pick, fleet.seeds, self._task)
            count = sum(stream.parts(self._task))
            if not self._stretch:
                with self._timed():
                    self._rehearsed = fleet.start_task(pick, count, self.job.batch)
            source = Source(stream, self._task, fleet, self._rehearsed)
            first = range(self.job.epochs)
            if self._more_epochs is None:
                yield from self._learn(source, first, skipped=self._stretch)
                with self._timed():
                    self._more_epochs = fleet.end_task(pick, count, self.job.batch)
                self._stretch = 0
            more = range(len(first), len(first) + self._more_epochs)
            yield from self._learn(source, more, skipped=self._stretch)
            fleet.next_task(count)
            self._task, self._stretch, self._more_epochs = self._task + 1, 0, None
            last = self._task == stream.tasks
            self._measure(range(self.job.stream.tasks if last else self._task + 1))

    def _learn(self, source: Source, epochs: range, skipped: int) -> Iterator[int]:
        """Some epochs of a task, without the stretches that were learned before."""
        stretches = _stretches(self.job, source.parts, epochs)
        planned = self.job.task_steps(self._task) if epochs.start == 0 else 0
        sizes = (math.ceil((until - first) / self.job.batch) for _, first, until in stretches)
        taken = [0, *accumulate(sizes)]
        shares = [planned * steps // max(taken[-1], 1) for steps in taken]
        for number, (epoch, first, until) in enumerate(stretches[skipped:], skipped):
            with self._timed():
                self._loss = self.fleet.learn(*source(epoch, first, until), self.job.batch)
            self._stretch += 1
            done = shares[number + 1] - shares[number]
            self.reported += done
            yield done

    def saved(self) -> Saved:
        """All of it, to be kept in a file."""
        clock = {"clock": asdict(self.fleet.clock)}
        place = {
            "length": _stretch(self.job),
            "task": self._task,
            "stretch": self._stretch,
            "rehearsed": self._rehearsed,
            "more_epochs": self._more_epochs,
            "reported": self.reported,
            "seconds": self._seconds,
        }
        rows = {name: [_plain(row) for row in rows] for name, rows in self._rows.items()}
        tensors = {"loss": self._loss, **self.fleet.tensors()}
        return Saved({**clock, **place, "rows": rows}, tensors)

    def restore(self, saved: Saved) -> None:
        """Go to where a saved one was."""
        facts, tensors = saved.facts, dict(saved.tensors)
        self._task, self._stretch = facts["task"], facts["stretch"]
        self._rehearsed, self._more_epochs = facts["rehearsed"], facts["more_epochs"]
        self.reported = facts["reported"]
        self._seconds, self._loss = facts["seconds"], tensors.pop("loss")
        self._rows = {
            name: [np.array(row, dtype=np.float64) for row in rows]
            for name, rows in facts["rows"].items()
        }
        clock = {n: tuple(v) if isinstance(v, list) else v for n, v in facts["clock"].items()}
        self.fleet.restore(tensors, Clock(**clock))  # type: ignore[arg-type]

    def results(self) -> list[Result]:
        """What came out for every run."""
        by_run = {setting: np.stack(rows, 1) for setting, rows in self._rows.items()}
        return [
            _result(self.job, self.fleet, run, {s: m[run] for s, m in by_run.items()},
                    self.transfers, self._seconds, self._loss)
            for run in range(self.fleet.runs)
        ]  # fmt: skip

    @contextmanager
    def _timed(self) -> Iterator[None]:
        """What is done meanwhile is training, and counts as such."""
        began = time.perf_counter()
        yield
        wait_for(self.fleet.device)
        self._seconds += time.perf_counter() - began

    def _measure(self, tasks: range) -> None:
        for setting, percent in accuracy(self.fleet, self.job.stream, tasks).items():
            row = np.full((self.fleet.runs, self.job.stream.tasks), np.nan)
            row[:, : len(tasks)] = percent.numpy()
            self._rows.setdefault(setting, []).append(row)


def fleet_of(job: Job, compiled: bool | None = None) -> Fleet:
    """The fleet that trains a job; steps are compiled where that pays, unless it is said."""
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
        images=job.stream.images,
        device=job.device,
        half=job.device.type == "cuda" and not job.full_precision,
        steps=job.steps,
        tasks=job.arriving.tasks,
        per_task=job.spec.per_task,
        compiled=compiled,
    )


def _stretch(job: Job) -> int:
    """How many examples to fetch at once: few for a processor's cache, many for a GPU."""
    if job.device.type == "cpu":
        return STRETCH
    bytes_each = math.prod(job.stream.shape) * job.stream.dtype.itemsize
    return min(STEPS_ON_GPU * job.batch, BYTES_ON_GPU // (bytes_each * len(job.runs)))


def _stretches(job: Job, parts: Sequence[int], epochs: range) -> list[tuple[int, int, int]]:
    """Epochs as (epoch, start, stop), thousands of examples each, none across two parts."""
    length = max(_stretch(job) // job.batch, 1) * job.batch
    ends = list(accumulate(parts))
    return [
        (epoch, first, min(first + length, end))
        for epoch in epochs
        for start, end in zip([0, *ends], ends, strict=False)
        for first in range(start, end, length)
    ]


def _result(
    job: Job,
    fleet: Fleet,
    run: int,
    matrices: dict[str, Matrix],
    transfers: bool,
    seconds: float,
    loss: Tensor,
) -> Result:
    trained = {s: m[1:] if transfers else m for s, m in matrices.items()}
    untrained = {s: m[0] for s, m in matrices.items()} if transfers else None
    # Before it has learned a task, a method with predictions of its own says nothing about it.
    foresees = job.kind.predict is Method.predict and not job.kind.needs.task_id
    made = {s: scores(m, untrained[s] if untrained else None) for s, m in trained.items()}
    return Result(
        **job.identities[run].as_fields(),
        accuracy={s: m.accuracy for s, m in made.items()},
        fwt={s: m.fwt if foresees else None for s, m in made.items()},
        bwt={s: m.bwt for s, m in made.items()},
        forgetting={s: m.forgetting for s, m in made.items()},
        matrix={s: _plain(m) for s, m in trained.items()},
        untrained={s: m.tolist() for s, m in untrained.items()} if untrained else None,
        train_seconds=seconds / fleet.runs,
        steps=fleet.steps,
        memory_bytes=fleet.bytes_per_run,
        diverged=not bool(loss[run].isfinite()),
        device=device_label(fleet.device),
        execution=fleet.execution,
    )


def _plain(matrix: Matrix) -> list[list[float | None]]:
    return [[None if np.isnan(value) else float(value) for value in row] for row in matrix]
