"""What a stream is: examples of tasks that arrive one after the other."""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol, cast, final

import torch
from torch import Tensor

from recollect.core.images import Images
from recollect.core.packing import Packing
from recollect.core.random import Purpose, bits, permute
from recollect.core.transforms import Transforms
from recollect.errors import InputError

__all__ = [
    "ABSENT_IF_NONE",
    "Batch",
    "Copies",
    "Setting",
    "Stream",
    "has_task_il",
    "packing_of",
    "shuffled",
    "take",
    "validation_of",
]

# Of a stream's field: one that is None has no part in the fingerprint, as if there were none.
ABSENT_IF_NONE = {"absent_if_none": True}

Setting = Literal["class", "domain", "general", "regression", "labels"]


class Batch(NamedTuple):
    """Examples of K runs: x `[K, B, *shape]`, y `[K, B]`.

    >>> batch = Batch(torch.zeros(2, 10, 28, 28), torch.zeros(2, 10))
    >>> batch.x.shape, batch.y.shape
    (torch.Size([2, 10, 28, 28]), torch.Size([2, 10]))
    """

    x: Tensor
    y: Tensor


class Stream(Protocol):
    """A benchmark: what arrives, in which order, and what is tested.

    Everything random in it depends on a run's seed, so its functions take the seeds of a fleet,
    `[K]`, and return tensors with a run axis. How many examples arrive never depends on the seed.

    >>> from recollect.streams import benchmark
    >>> stream: Stream = benchmark("seq-digits").stream()
    >>> stream.tasks, stream.classes, stream.shape, stream.setting, stream.boundaries
    (5, 10, (8, 8), 'class', True)
    >>> seeds = torch.tensor([0, 1])
    >>> first = stream.pick(seeds, 0, stream.order(seeds, task=0, epoch=0, start=0, stop=10))
    >>> first.x.shape, first.y.max() < 2
    (torch.Size([2, 10, 8, 8]), tensor(True))
    """

    @property
    def name(self) -> str:
        """The name by which the command line knows it."""

    @property
    def setting(self) -> Setting:
        """How it is scored: `class` (Class-IL and Task-IL), `domain` or `general`.

        `regression` and `labels` are for targets y `[K, n, C]` that are not one class.
        """

    @property
    def boundaries(self) -> bool:
        """Whether methods are notified where a task ends."""

    @property
    def classes(self) -> int:
        """The size of the head."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one example."""

    @property
    def dtype(self) -> torch.dtype:
        """How one example is stored: uint8 for images, float32 for other arrays."""

    @property
    def images(self) -> Images | Transforms | None:
        """How images are cropped, flipped and normalised, or other examples transformed, if so."""

    @property
    def tasks(self) -> int:
        """How many tasks there are; a stream without boundaries has one."""

    def parts(self, task: int) -> tuple[int, ...]:
        """How many examples each unbroken part of a task has; no batch spans two parts."""

    def order(self, seeds: Tensor, task: int, epoch: int, start: int, stop: int) -> Tensor:
        """Which examples of a task arrive in positions start..stop-1 of an epoch, `[K, n]`."""

    def pick(self, seeds: Tensor, task: int | Tensor, index: Tensor) -> Batch:
        """The examples `index` `[K, n]` of a task (one, or one each: `[K, n]`), as it has them."""

    def test(self, seeds: Tensor, task: int) -> Batch:
        """The test set of a task: x `[K, n, *shape]`, y `[K, n]`; K is 1 if all runs share it."""

    def task_classes(self, task: int) -> tuple[int, ...]:
        """The classes of a task, which Task-IL chooses from."""


class TaskClasses(Protocol):
    """What says which classes every task has."""

    @property
    def setting(self) -> Setting:
        """How it is scored."""

    @property
    def tasks(self) -> int:
        """How many tasks there are."""

    def task_classes(self, task: int) -> tuple[int, ...]:
        """The classes of a task."""


def has_task_il(stream: TaskClasses) -> bool:
    """Whether Task-IL means something: tasks have classes of their own, which may come back.

    Where a class belongs to several different tasks, or all tasks have the same classes, the task
    of an example does not tell which classes to choose from.
    """
    if stream.setting != "class":
        return False
    groups = {frozenset(stream.task_classes(task)) for task in range(stream.tasks)}
    apart = sum(map(len, groups)) == len(frozenset().union(*groups))
    return apart and (len(groups) > 1 or stream.tasks == 1)


def packing_of(stream: object) -> Packing | None:
    """How a stream's examples of several tensors are packed; None if they are one tensor each."""
    found: Packing | None = getattr(stream, "packing", None)
    return found


def validation_of(stream: object) -> Stream:
    """The validation split of a stream: what its method `validation()` returns."""
    split = getattr(stream, "validation", None)
    if not callable(split):
        raise InputError(
            f"a {type(stream).__name__} has no validation split: give it a method validation() "
            "that returns a stream, or make the stream with recollect.from_arrays"
        )
    return cast(Stream, split())


def shuffled(seeds: Tensor, task: int, epoch: int, start: int, stop: int, size: int) -> Tensor:
    """Positions start..stop-1 of a random order of `size` examples, one order per run and epoch."""
    key = bits(seeds, Purpose.ORDER, task, epoch)
    return permute(key[:, None], torch.arange(start, stop, device=seeds.device), size)


def take(data: Tensor, ids: Tensor) -> Tensor:
    """The rows `ids` of `data`: the same as `data[ids]`, but copied row by row, far faster."""
    return data.index_select(0, ids.flatten()).view(*ids.shape, *data.shape[1:])


@final
class Copies:
    """Tensors that are copied to a device once, the first time that they are needed there.

    A stream's tensors follow the device of the seeds, so a stream need not be moved to a device.
    """

    def __init__(self, *tensors: Tensor) -> None:
        self._home = tensors
        self._copies: dict[torch.device, tuple[Tensor, ...]] = {}

    def on(self, device: torch.device) -> tuple[Tensor, ...]:
        """The tensors on `device`; not to be written to."""
        if device not in self._copies:
            self._copies[device] = tuple(tensor.to(device) for tensor in self._home)
        return self._copies[device]
