"""Record curves and call callbacks during the training of a fleet."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, final

import torch
from torch import Tensor

from recollect.errors import InputError
from recollect.streams.stream import Batch, Stream, shuffled
from recollect.train.curves import Curves
from recollect.train.details import Callback, Point
from recollect.train.evaluate import Counts, Matrix, accuracy
from recollect.train.fleet import Fleet
from recollect.train.job import Job


@final
class Observer:
    """Records the requested details of a job during its training."""

    def __init__(self, job: Job, fleet: Fleet) -> None:
        self._job, self._fleet, self._details = job, fleet, job.details
        self._intervals = [callback.every for callback in job.details.callbacks]
        if job.details.curves:
            self._intervals.append(job.details.curves)
        self._points: list[dict[str, Any]] = []
        self._sample = _Sample(job.stream, job.details.examples)
        self.counts: Counts | None = {} if job.details.confusion else None

    def cuts(self, count: int) -> Iterator[slice]:
        """Divide `count` examples into pieces that end at steps with a point or a callback."""
        start, batch = 0, self._job.batch
        while start < count:
            ahead = [every - self._fleet.steps % every for every in self._intervals]
            stop = min(count, start + min(ahead) * batch) if ahead else count
            yield slice(start, stop)
            start = stop

    def steps(self, point: Point) -> None:
        """Record a point and call callbacks if they are due after some steps."""
        taken = self._fleet.steps
        if self._details.curves and taken % self._details.curves == 0:
            found = accuracy(self._fleet, self._sample, range(self._seen(point.task)))
            self._add(point, {name: percent.tolist() for name, percent in found.items()})
        due = [each for each in self._details.callbacks if taken % each.every == 0]
        self.call("on_steps", point, due)

    def task_end(self, point: Point, measured: Mapping[str, Matrix]) -> None:
        """Record a point and call callbacks at task end, given accuracies `[K, tasks]`."""
        if self._details.curves:
            if self._points and self._points[-1]["step"] == self._fleet.steps:
                self._points.pop()  # measured on fewer examples, before the method's end_task
            seen = self._seen(point.task)
            self._add(point, {name: row[:, :seen].tolist() for name, row in measured.items()})
        self.call("on_task_end", point)

    def call(self, name: str, point: Point, due: Sequence[Callback] | None = None) -> None:
        """Call a method of the callbacks that are due, or of all."""
        try:
            for callback in self._details.callbacks if due is None else due:
                getattr(callback, name)(point)
        except StopIteration:
            raise InputError(
                "a callback raised StopIteration, but a run cannot end early, since its scores "
                "need all tasks: raise another exception to end all runs, or write a training loop "
                "yourself"
            ) from None

    def saved(self) -> dict[str, Any]:
        """The records so far, as plain data."""
        found: dict[str, Any] = {"curve": self._points} if self._details.curves else {}
        if self.counts:
            found["counts"] = {name: counts.tolist() for name, counts in self.counts.items()}
        return found

    def restore(self, facts: Mapping[str, Any]) -> None:
        """Continue from saved records."""
        self._points = list(facts.get("curve", []))
        if self.counts is not None:
            saved = facts.get("counts", {}).items()
            self.counts.update((name, torch.tensor(counts)) for name, counts in saved)

    def curves(self, run: int) -> Curves | None:
        """The curves of a run, if requested."""
        points = self._points
        if not points:
            return None
        return Curves(
            every=self._details.curves,
            examples=self._details.examples,
            steps=[point["step"] for point in points],
            tasks=[point["task"] for point in points],
            loss=[point["loss"][run] for point in points],
            accuracy={
                name: [point["accuracy"][name][run] for point in points]
                for name in points[0]["accuracy"]
            },
        )

    def confusion(self, run: int) -> dict[str, list[list[int]]] | None:
        """The confusion matrices of a run, if requested."""
        if self.counts is None:
            return None
        return {name: counts[run].tolist() for name, counts in self.counts.items()}

    def _seen(self, task: int) -> int:
        """The number of tasks that have started: all of them in joint training."""
        return self._job.stream.tasks if self._job.kind.needs.all_data else task + 1

    def _add(self, point: Point, percent: dict[str, list[list[float]]]) -> None:
        loss = [value if math.isfinite(value) else None for value in point.loss.tolist()]
        self._points.append(
            {"step": self._fleet.steps, "task": point.task, "loss": loss, "accuracy": percent}
        )


@final
class _Sample:
    """A stream with a fixed random sample of each test set."""

    def __init__(self, stream: Stream, most: int) -> None:
        self._stream, self._most = stream, most
        self._batches: dict[int, Batch] = {}
        self.setting, self.classes, self.tasks = stream.setting, stream.classes, stream.tasks
        self.task_classes = stream.task_classes

    def test(self, seeds: Tensor, task: int) -> Batch:
        if task not in self._batches:
            x, y = self._stream.test(seeds, task)
            count = y.shape[1]
            first = shuffled(seeds[:1] * 0, task, 0, 0, min(self._most, count), count)[0]
            self._batches[task] = Batch(x[:, first], y[:, first])
        return self._batches[task]
