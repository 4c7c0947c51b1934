"""Joint training on all tasks of a stream at once, the upper bound in the paper's tables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from operator import attrgetter
from typing import final

import torch
from torch import Tensor

from recollect.streams.stream import Batch, Copies, Stream, packing_of, shuffled


@final
@dataclass(frozen=True, eq=False)
class Joint:
    """Stream that mixes all tasks of `inner` into one, so that examples are i.i.d.

    Training sees a single task; evaluation uses the tasks of `inner`.

    >>> from recollect.streams import benchmark
    >>> joint = Joint(benchmark("seq-digits").stream())
    >>> joint.tasks, joint.parts(0)
    (1, (1438,))
    """

    inner: Stream

    tasks = 1
    name = property(attrgetter("inner.name"))
    setting = property(attrgetter("inner.setting"))
    boundaries = property(attrgetter("inner.boundaries"))
    classes = property(attrgetter("inner.classes"))
    shape = property(attrgetter("inner.shape"))
    dtype = property(attrgetter("inner.dtype"))
    images = property(attrgetter("inner.images"))
    packing = property(lambda self: packing_of(self.inner))

    @property
    def weighted(self) -> bool:
        """True if the training examples have weights."""
        return bool(getattr(self.inner, "weighted", False))

    def parts(self, task: int) -> tuple[int, ...]:
        """Total number of examples of all tasks."""
        return (self._ends[-1],)

    def order(self, seeds: Tensor, task: int, epoch: int, start: int, stop: int) -> Tensor:
        """Positions start..stop-1 of a random order of all examples, `[K, stop-start]`."""
        return shuffled(seeds, task, epoch, start, stop, self._ends[-1])

    def pick(self, seeds: Tensor, task: int | Tensor, index: Tensor) -> Batch:
        """Return the examples `index` `[K, n]`, numbered across all tasks."""
        starts, ends = self._bounds.on(index.device)
        inner_task = torch.bucketize(index, ends, right=True)
        return self.inner.pick(seeds, inner_task, index - starts[inner_task])

    def test(self, seeds: Tensor, task: int) -> Batch:
        """Return the concatenated test sets of all tasks."""
        batches = [self.inner.test(seeds, inner) for inner in range(self.inner.tasks)]
        return Batch(torch.cat([b.x for b in batches], 1), torch.cat([b.y for b in batches], 1))

    def task_classes(self, task: int) -> tuple[int, ...]:
        """Return the classes of all tasks."""
        tasks = range(self.inner.tasks)
        return tuple(sorted({c for inner in tasks for c in self.inner.task_classes(inner)}))

    @cached_property
    def _ends(self) -> tuple[int, ...]:
        """Cumulative number of examples up to the end of each inner task."""
        return tuple(accumulate(sum(self.inner.parts(t)) for t in range(self.inner.tasks)))

    @cached_property
    def _bounds(self) -> Copies:
        return Copies(torch.tensor([0, *self._ends[:-1]]), torch.tensor(self._ends))
