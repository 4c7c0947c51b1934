"""Streams of tasks: each task has new classes, or another view of the same classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from typing import final

import torch
from torch import Tensor

from recollect.core.images import Images
from recollect.core.packing import Packing
from recollect.core.transforms import Transforms
from recollect.errors import InputError
from recollect.streams.class_order import ClassOrder
from recollect.streams.data.dataset import held_out
from recollect.streams.pixels import PixelMap, View, pixel_map, through
from recollect.streams.stream import ABSENT_IF_NONE, Batch, Copies, Setting, shuffled, take


def examples_of(labels: Tensor, classes: Sequence[int]) -> Tensor:
    """Return the indices of the examples of some classes."""
    return torch.isin(labels, torch.tensor(classes)).nonzero().flatten()


@final
@dataclass(frozen=True, eq=False)
class TaskStream:
    """Stream of tasks over one data set; a task is a set of examples and a view of their pixels.

    >>> x, y = torch.arange(8, dtype=torch.uint8).view(8, 1), torch.arange(8) // 2
    >>> classes = ((0, 1), (2, 3))
    >>> ids = tuple(examples_of(y, pair) for pair in classes)
    >>> stream = TaskStream("toy", "class", 4, x, y, x, y, ids, ids, classes)
    >>> seeds = torch.tensor([0, 1])
    >>> stream.pick(seeds, 1, stream.order(seeds, 1, epoch=0, start=0, stop=4)).y.sort().values
    tensor([[2, 2, 3, 3],
            [2, 2, 3, 3]])
    """

    name: str
    setting: Setting
    classes: int
    train_x: Tensor = field(repr=False)
    train_y: Tensor = field(repr=False)
    test_x: Tensor = field(repr=False)
    test_y: Tensor = field(repr=False)
    train_ids: tuple[Tensor, ...] = field(repr=False)
    test_ids: tuple[Tensor, ...] = field(repr=False)
    classes_of: tuple[tuple[int, ...], ...]
    view: View = "plain"
    shuffle: bool = True
    boundaries: bool = True
    images: Images | Transforms | None = None
    packing: Packing | None = field(default=None, metadata=ABSENT_IF_NONE)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one example."""
        return tuple(self.train_x.shape[1:])

    @property
    def dtype(self) -> torch.dtype:
        """Type in which examples are stored."""
        return self.train_x.dtype

    @property
    def weighted(self) -> bool:
        """True if the training examples have weights, in the first column of `train_y`."""
        return self.train_y.shape[1:] != self.test_y.shape[1:]

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return len(self.train_ids)

    def parts(self, task: int) -> tuple[int, ...]:
        """Number of examples of a task, as one contiguous part."""
        return (len(self.train_ids[task]),)

    def order(self, seeds: Tensor, task: int, epoch: int, start: int, stop: int) -> Tensor:
        """Indices of the examples in positions start..stop-1 of an epoch, `[K, stop-start]`."""
        if self.shuffle:
            return shuffled(seeds, task, epoch, start, stop, len(self.train_ids[task]))
        return torch.arange(start, stop, device=seeds.device).expand(len(seeds), -1)

    def pick(self, seeds: Tensor, task: int | Tensor, index: Tensor) -> Batch:
        """Return the examples `index` `[K, n]` of a task; `task` may be `[K, n]`, one for each."""
        device = index.device
        images, labels, ids, starts = self._train.on(device)
        chosen = ids[starts[task] + index]
        if self.view == "reordered":
            rows = self._train_order.rows(seeds, chosen)
            return Batch(take(images, rows), take(labels, chosen))
        x, y = take(images, chosen), take(labels, chosen)
        if self.view == "plain":
            return Batch(x, y)
        grid = x.view(*index.shape, -1, self._grid[-1])
        if isinstance(task, int):
            return Batch(through(grid, self._seen(seeds, (task,), device)).view(x.shape), y)
        seen = self._seen(seeds, tuple(range(self.tasks)), device)
        for k in range(len(seeds)):  # one run at a time, as a map per example takes much memory
            inside = None if seen.inside is None else seen.inside[k, task[k]]
            grid[k] = through(grid[k], PixelMap(seen.source[k, task[k]], inside))
        return Batch(x, y)

    def test(self, seeds: Tensor, task: int) -> Batch:
        """Return the test set of a task: x `[K, n, *shape]`, y `[K, n]`; K is 1 if it is shared."""
        images, labels = self._test.on(seeds.device)
        ids = self.test_ids[task].to(seeds.device)
        y = labels[ids][None]
        if self.view == "plain":
            return Batch(take(images, ids)[None], y)
        runs = len(seeds)
        if self.view == "reordered":
            rows = self._test_order.rows(seeds, ids.expand(runs, -1))
            return Batch(take(images, rows), y.expand(runs, *y.shape[1:]))
        seen = self._seen(seeds, (task,), seeds.device)
        rows = images.index_select(0, seen.source.flatten())
        if seen.inside is not None:
            rows *= seen.inside.view(-1, 1)
        x = rows.view(runs, *self.shape, -1).movedim(-1, 1)
        everything = torch.equal(self.test_ids[task], torch.arange(len(self.test_y)))
        return Batch(x if everything else x[:, ids], y.expand(runs, *y.shape[1:]))

    def task_classes(self, task: int) -> tuple[int, ...]:
        """Return the classes of a task, among which Task-IL predicts."""
        return self.classes_of[task]

    def validation(self, share: float = 0.1) -> TaskStream:
        """Return the stream with a share of its training examples as the test set, for tuning.

        The share is taken at random, identically for every seed, from each class that a task is
        tested on. Held-out examples are not used for training in any task.

        >>> x, y = torch.arange(80.0).view(40, 2), torch.arange(40) % 2
        >>> ids = (torch.arange(40),)
        >>> stream = TaskStream("toy", "class", 2, x, y, x, y, ids, ids, ((0, 1),))
        >>> split = stream.validation()
        >>> split.parts(0), split.test(torch.tensor([0]), 0).y.shape
        ((36,), torch.Size([1, 4]))
        """
        if not 0 < share < 1:
            raise InputError(f"share must be above 0 and below 1, not {share}")
        plain = _without_weights(self.train_y, self.test_y)
        # Only class labels are stratified.
        groups, tested_on = (
            y if y.dim() == 1 else torch.zeros(len(y), dtype=torch.int64)
            for y in (plain, self.test_y)
        )
        held = torch.zeros(len(plain), dtype=torch.bool)
        seen = torch.zeros_like(held)
        own = [
            ids[torch.isin(groups[ids], tested_on[tested])]
            for ids, tested in zip(self.train_ids, self.test_ids, strict=True)
        ]
        for task, ids in enumerate(own):  # examples of a recurring task are split once
            new = ids[~seen[ids]]
            held[new[held_out(groups[new], share, task)]] = True
            seen[ids] = True
        test_ids = tuple(ids[held[ids]] for ids in own)
        for task, ids in enumerate(test_ids):
            if not len(ids):
                raise InputError(
                    f"task {task} of {self.name} has too few examples for a validation split: it "
                    "needs two or more of a class"
                )
        train_ids = tuple(ids[~held[ids]] for ids in self.train_ids)
        return replace(
            self, test_x=self.train_x, test_y=plain, train_ids=train_ids, test_ids=test_ids
        )

    def _seen(self, seeds: Tensor, tasks: tuple[int, ...], device: torch.device) -> PixelMap:
        channels, height, width = self._grid
        runs = tuple(seeds.tolist())
        return pixel_map(self.view, runs, tasks, height, width, str(device), channels)

    @property
    def _grid(self) -> tuple[int, ...]:
        """Channels, height and width of an example; a vector counts as one row."""
        return (*[1] * (3 - len(self.shape)), *self.shape)

    @cached_property
    def _train_order(self) -> ClassOrder:
        return ClassOrder(self.train_y)

    @cached_property
    def _test_order(self) -> ClassOrder:
        return ClassOrder(self.test_y)

    @cached_property
    def _train(self) -> Copies:
        starts = [0, *accumulate(len(ids) for ids in self.train_ids[:-1])]
        ids = torch.cat(self.train_ids)
        return Copies(self.train_x, self.train_y, ids, torch.tensor(starts))

    @cached_property
    def _test(self) -> Copies:
        if self.view in ("plain", "reordered"):
            return Copies(self.test_x, self.test_y)
        # Pixels are the first axis in memory, so a view copies whole rows, faster than a gather.
        return Copies(self.test_x.flatten(1).t().contiguous(), self.test_y)


def reordered(stream: TaskStream) -> TaskStream:
    """Return the stream with a random class order per seed, and only the examples that it uses."""
    train_ids, test_ids = (
        tuple(ids[order.used[ids]] for ids in tasks)
        for order, tasks in (
            (ClassOrder(stream.train_y), stream.train_ids),
            (ClassOrder(stream.test_y), stream.test_ids),
        )
    )
    return replace(stream, view="reordered", train_ids=train_ids, test_ids=test_ids)


def _without_weights(y: Tensor, like: Tensor) -> Tensor:
    """Remove the column of weights from targets `[N, ...]`, to match those of the test set.

    >>> from recollect.core.targets import with_weights
    >>> y = with_weights(torch.tensor([2, 0]), torch.tensor([1.0, 0.5]))
    >>> _without_weights(y, torch.tensor([1]))
    tensor([2, 0])
    """
    if y.shape[1:] == like.shape[1:]:
        return y
    plain = y[:, 1] if like.dim() == 1 else y[:, 1:]
    return plain.to(like.dtype)
