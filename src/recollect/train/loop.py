"""The training loop over a stream: train on each task, then evaluate."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from functools import partial
from itertools import accumulate

import numpy as np
import torch

from recollect.errors import TimeUp
from recollect.memory import Clock
from recollect.methods import Method
from recollect.streams.stream import packing_of, target_of
from recollect.train.checkpoint import Checkpoints, Saved
from recollect.train.details import Point
from recollect.train.devices import device_label, wait_for
from recollect.train.evaluate import Matrix, accuracy, plain, scores
from recollect.train.fleet import Fleet
from recollect.train.interrupts import SLICE_SECONDS, Slices, stop_asked
from recollect.train.job import Job
from recollect.train.networks import save_networks
from recollect.train.observer import Observer
from recollect.train.result import Result
from recollect.train.source import Source, first_example, stretch_length, stretches_of


def train(
    job: Job,
    report: Callable[[int], None] = lambda steps: None,
    checkpoints: Checkpoints | None = None,
) -> list[Result]:
    """Train the runs of a job as one fleet and evaluate them.

    `report` is called periodically with the number of steps of every run since the last call. With
    `checkpoints`, the job continues from its last saved state, with the same result as without an
    interruption; it raises `TimeUp` at the time limit or after a signal to stop.
    """
    job.check()
    name = job.key
    if checkpoints and (known := checkpoints.results(name)) is not None:
        report(job.steps)
        return known
    progress = Progress(job)
    saved = checkpoints.saved(name) if checkpoints else None
    if saved is not None and saved.facts["length"] == stretch_length(job):
        progress.restore(saved)
        report(progress.reported)
    for steps in progress.advance():
        report(steps)
        late = checkpoints is not None and checkpoints.time_is_up()
        stopping = late or stop_asked()
        if checkpoints and (stopping or checkpoints.due()):
            checkpoints.save(name, progress.saved())
        if stopping:
            why, done = "the time limit" if late else "a signal", f"{progress.reported:,}"
            after = f"{done} of {job.steps:,} steps"
            raise TimeUp(f"stopped by {why} after {after}; the same command continues")
    results = progress.results()
    if checkpoints:
        checkpoints.finish(name, results)
    return results


@dataclass
class _Position:
    """The position of a fleet in its stream, as saved in files."""

    task: int = 0
    stretch: int = 0
    batches: int = 0  # of that stretch
    rehearsed: int = 0
    more_epochs: int | None = None
    reported: int = 0
    seconds: float = 0.0
    first: int = 0


class Progress:
    """The training of a fleet on a stream: its position and the measurements so far."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.fleet = fleet_of(job)
        self.transfers = job.arriving.tasks == job.stream.tasks > 1
        self._at = _Position()
        self._slices = Slices()
        self._loss = torch.zeros(self.fleet.runs)
        self._rows: dict[str, list[Matrix]] = {}
        self._columns: list[dict[str, list[float]]] = []  # of the row that is being measured
        self._observer = Observer(job, self.fleet)

    @property
    def reported(self) -> int:
        """The number of the job's steps taken so far."""
        return self._at.reported

    def advance(self) -> Iterator[int]:
        """Train stretch by stretch to the end, evaluating after every task.

        Yields the number of the job's planned steps that each stretch accounts for: rehearsed
        examples take more steps than planned, and epochs that a method requests at task end count
        as none. A long evaluation yields 0 periodically.
        """
        stream, fleet, at = self.job.arriving, self.fleet, self._at
        if self.transfers and not self._rows:
            yield from self._measure(range(stream.tasks))
        if len(next(iter(self._rows.values()), ())) - self.transfers < at.task:
            yield from self._end_task()
        while at.task < stream.tasks:
            pick = partial(stream.pick, fleet.seeds, at.task)
            count = sum(stream.parts(at.task))
            if not (at.stretch or at.batches):
                with self._timed():
                    at.rehearsed = fleet.start_task(pick, count, self.job.batch)
                self._observer.call("on_task_start", self._point(at.task))
            source = Source(stream, at.task, fleet, at.rehearsed)
            first = range(self.job.epochs)
            if at.more_epochs is None:
                yield from self._learn(source, first)
                with self._timed():
                    at.more_epochs = fleet.end_task(pick, count, self.job.batch)
                at.stretch = 0
            yield from self._learn(source, range(len(first), len(first) + at.more_epochs))
            fleet.next_task(count)
            at.task, at.stretch, at.more_epochs = at.task + 1, 0, None
            yield from self._end_task()
        self._observer.call("on_run_end", self._point(stream.tasks - 1))

    def _end_task(self) -> Iterator[int]:
        """Evaluate after a task."""
        at, last = self._at, self._at.task == self.job.arriving.tasks
        yield from self._measure(range(self.job.stream.tasks if last else at.task + 1), last)
        latest = {setting: rows[-1] for setting, rows in self._rows.items()}
        self._observer.task_end(self._point(at.task - 1), latest)

    def _learn(self, source: Source, epochs: range) -> Iterator[int]:
        """Train the rest of some epochs of a task."""
        at, stretches = self._at, stretches_of(self.job, source.parts, epochs)
        planned = self.job.task_steps(at.task) if epochs.start == 0 else 0
        sizes = (math.ceil((until - first) / self.job.batch) for _, first, until in stretches)
        taken = [0, *accumulate(sizes)]
        if self.job.optimisation.per == "task":
            # Epochs that a method requests at task end have a schedule of their own.
            if not (at.stretch or at.batches):
                at.first = self.fleet.steps
            self.fleet.planner.begin_schedule(at.first, taken[-1])

        def share() -> int:
            return planned * (taken[at.stretch] + at.batches) // max(taken[-1], 1)

        while at.stretch < len(stretches):
            before = share()
            self._learn_stretch(source, *stretches[at.stretch])
            done = share() - before
            at.reported += done
            yield done

    def _learn_stretch(self, source: Source, epoch: int, first: int, until: int) -> None:
        """Train the rest of a stretch, or less if the process is requested to stop."""
        at, batch = self._at, self.job.batch
        first += at.batches * batch
        while first < until:
            stop = min(first + self._slices.batches * batch, until)
            before, count = at.seconds, math.ceil((stop - first) / batch)
            with self._timed():
                x, y = source(epoch, first, stop)
            for cut in self._observer.cuts(y.shape[1]):
                with self._timed():
                    self._loss = self.fleet.learn(x[:, cut], y[:, cut], batch)
                self._observer.steps(self._point(at.task))
            self._slices.took(at.seconds - before, count)
            first, at.batches = stop, at.batches + count
            if stop_asked():
                break
        if first == until:
            at.stretch, at.batches = at.stretch + 1, 0

    def saved(self) -> Saved:
        """The complete state, to save in a file."""
        facts = {
            "clock": asdict(self.fleet.clock),
            "length": stretch_length(self.job),
            **asdict(self._at),
            "rows": {name: [plain(row) for row in rows] for name, rows in self._rows.items()},
            "columns": self._columns,
            **self._observer.saved(),
        }
        return Saved(facts, {"loss": self._loss, **self.fleet.tensors()})

    def restore(self, saved: Saved) -> None:
        """Continue from a saved state."""
        facts, tensors = saved.facts, dict(saved.tensors)
        self._at = _Position(**{field.name: facts[field.name] for field in fields(_Position)})
        self._loss = tensors.pop("loss")
        self._rows = {
            name: [np.array(row, dtype=np.float64) for row in rows]
            for name, rows in facts["rows"].items()
        }
        self._columns = list(facts.get("columns", []))
        self._observer.restore(facts)
        clock = {n: tuple(v) if isinstance(v, list) else v for n, v in facts["clock"].items()}
        self.fleet.restore(tensors, Clock(**clock))  # type: ignore[arg-type]

    def results(self) -> list[Result]:
        """The result of every run."""
        job, fleet = self.job, self.fleet
        by_run = {setting: np.stack(rows, 1) for setting, rows in self._rows.items()}
        # A method with its own `predict` has no meaningful predictions before it learns a task.
        foresees = job.kind.predict is Method.predict and not job.kind.needs.task_id
        saved = save_networks(job, fleet)
        results = []
        for run, identity in enumerate(job.identities):
            measured = {s: m[run] for s, m in by_run.items()}
            untrained = {s: m[0] for s, m in measured.items()} if self.transfers else {}
            trained = {s: m[1:] if self.transfers else m for s, m in measured.items()}
            found = {s: scores(m, untrained.get(s), s) for s, m in trained.items()}
            results.append(
                Result(
                    **identity.as_fields(),
                    network_class=self.job.network_class,
                    method_title=self.job.method_title,
                    accuracy={s: m.accuracy for s, m in found.items()},
                    fwt={s: m.fwt if foresees else None for s, m in found.items()},
                    bwt={s: m.bwt for s, m in found.items()},
                    forgetting={s: m.forgetting for s, m in found.items()},
                    matrix={s: plain(m) for s, m in trained.items()},
                    untrained={s: m.tolist() for s, m in untrained.items()} or None,
                    train_seconds=self._at.seconds / fleet.runs,
                    steps=fleet.steps,
                    memory_bytes=fleet.bytes_per_run,
                    diverged=not bool(self._loss[run].isfinite()),
                    device=device_label(fleet.device),
                    execution=fleet.execution,
                    curves=self._observer.curves(run),
                    confusion=self._observer.confusion(run),
                    network_file=saved[run],
                )
            )
        return results

    @contextmanager
    def _timed(self) -> Iterator[None]:
        """Count the time within this context as training time."""
        began = time.perf_counter()
        yield
        wait_for(self.fleet.device)
        self._at.seconds += time.perf_counter() - began

    def _point(self, task: int) -> Point:
        return Point(self.fleet, self.job.stream, task, self._loss)

    def _measure(self, tasks: range, last: bool = False) -> Iterator[int]:
        """Add a row to the matrices; yields 0 between two tasks of a long evaluation."""
        counts = self._observer.counts if last else None
        began = time.perf_counter()
        for task in tasks[len(self._columns) :]:
            found = accuracy(self.fleet, self.job.stream, [task], counts)
            self._columns.append({name: percent[:, 0].tolist() for name, percent in found.items()})
            if task != tasks[-1] and time.perf_counter() - began > SLICE_SECONDS:
                yield 0
        for setting in self._columns[0]:
            row = np.full((self.fleet.runs, self.job.stream.tasks), np.nan)
            row[:, : len(tasks)] = np.array([each[setting] for each in self._columns]).T
            self._rows.setdefault(setting, []).append(row)
        self._columns = []


def fleet_of(job: Job, compiled: bool | None = None) -> Fleet:
    """Create the fleet of a job; by default, steps are compiled if that is faster."""
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
        packing=packing_of(job.stream),
        device=job.device,
        half=job.half,
        steps=job.steps,
        tasks=job.arriving.tasks,
        per_task=job.spec.per_task,
        compiled=compiled,
        optimisation=job.optimisation,
        numbers=[run.numbers for run in job.runs],
        target=target_of(job.stream),
        example=first_example(job.arriving),
    )
