"""The examples of a task in training order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from recollect.core.calling import fullest
from recollect.streams.stream import Stream, shuffled
from recollect.train.fleet import Fleet
from recollect.train.job import Job

FEW = 100
STRETCH = 4096
STEPS_ON_GPU = 512
BYTES_ON_GPU = 1 << 30


class Source:
    """The examples of a task in the order of an epoch, for all runs of a fleet.

    The first `rehearsed` stored examples are shuffled among those of the task; the memory must not
    change before the task ends.
    """

    def __init__(self, stream: Stream, task: int, fleet: Fleet, rehearsed: int = 0) -> None:
        self._stream, self._task, self._fleet = stream, task, fleet
        self._count, self._rehearsed = sum(stream.parts(task)), rehearsed
        self.parts = (self._count + rehearsed,) if rehearsed else stream.parts(task)

    def __call__(self, epoch: int, first: int, until: int) -> tuple[Tensor, Tensor]:
        """Return the examples at positions first to until-1: x `[K, n, ...]`, y `[K, n]`."""
        stream, task, seeds = self._stream, self._task, self._fleet.seeds
        if not self._rehearsed:
            return stream.pick(seeds, task, stream.order(seeds, task, epoch, first, until))
        index = shuffled(seeds, task, epoch, first, until, self._count + self._rehearsed)
        new = stream.pick(seeds, task, index.clamp(max=self._count - 1))
        memory = self._fleet.memory
        old = memory.read(memory.rows((index - self._count).clamp(min=0)))
        again = index >= self._count
        x, y = (
            torch.where(again.view(*again.shape, *[1] * (now.dim() - 2)), then, now)
            for now, then in ((new.x, old.x), (new.y, old.y))
        )
        return x, y


def first_example(stream: Stream) -> Tensor | None:
    """Return an example `[...]` of a stream's first task; None if the task is empty.

    Of the first ones, it is the one with the most values that are not 0.
    """
    count = min(sum(stream.parts(0)), FEW)
    if not count:
        return None
    x = stream.pick(torch.tensor([0]), 0, torch.arange(count)[None]).x[0]
    return fullest(x)


def stretch_length(job: Job) -> int:
    """The number of examples to fetch at once: few for a CPU's cache, many for a GPU."""
    if job.device.type == "cpu":
        return STRETCH
    bytes_each = math.prod(job.stream.shape) * job.stream.dtype.itemsize
    return min(STEPS_ON_GPU * job.batch, BYTES_ON_GPU // (bytes_each * len(job.runs)))


def stretches_of(job: Job, parts: Sequence[int], epochs: range) -> list[tuple[int, int, int]]:
    """Divide epochs into stretches (epoch, start, stop) that do not cross the ends of parts."""
    length = max(stretch_length(job) // job.batch, 1) * job.batch
    ends = list(accumulate(parts))
    return [
        (epoch, first, min(first + length, end))
        for epoch in epochs
        for start, end in zip([0, *ends], ends, strict=False)
        for first in range(start, end, length)
    ]
