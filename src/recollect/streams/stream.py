"""The stream interface: tasks whose examples arrive one after the other."""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol, cast, final

import torch
from torch import Tensor

from recollect.core.images import Images
from recollect.core.packing import Packing
from recollect.core.random import Purpose, bits, permute
from recollect.core.targets import CLASS, TARGETS, Target
from recollect.core.transforms import Transforms
from recollect.errors import InputError

# Metadata of a stream's field: if its value is None, it is not part of the fingerprint.
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
    """Interface of a stream: training examples in tasks, their order, and the test sets.

    Everything random in a stream depends on a run's seed, so its methods take the seeds `[K]` of a
    fleet and return tensors with a run axis. The number of examples never depends on the seed.

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
        """Name of the stream."""

    @property
    def setting(self) -> Setting:
        """Evaluation setting: `class` (Class-IL and Task-IL), `domain` or `general`.

        `regression` and `labels` have targets y `[K, n, C]` instead of class labels.
        """

    @property
    def boundaries(self) -> bool:
        """True if methods are notified of task ends."""

    @property
    def classes(self) -> int:
        """Number of network outputs."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one example."""

    @property
    def dtype(self) -> torch.dtype:
        """Type in which examples are stored: uint8 for images, float32 for other arrays."""

    @property
    def images(self) -> Images | Transforms | None:
        """Augmentation and normalisation of examples; None if there is none."""

    @property
    def tasks(self) -> int:
        """Number of tasks; a stream without boundaries has one."""

    def parts(self, task: int) -> tuple[int, ...]:
        """Number of examples of each contiguous part of a task; no batch spans two parts."""

    def order(self, seeds: Tensor, task: int, epoch: int, start: int, stop: int) -> Tensor:
        """Indices of the examples that arrive in positions start..stop-1 of an epoch, `[K, n]`."""

    def pick(self, seeds: Tensor, task: int | Tensor, index: Tensor) -> Batch:
        """Return the examples `index` `[K, n]` of a task; `task` may be `[K, n]`, one for each."""

    def test(self, seeds: Tensor, task: int) -> Batch:
        """Return the test set of a task: x `[K, n, *shape]`, y `[K, n]`; K is 1 if it is shared."""

    def task_classes(self, task: int) -> tuple[int, ...]:
        """Return the classes of a task, among which Task-IL predicts."""


class TaskClasses(Protocol):
    """Interface of objects that know the classes of each task."""

    @property
    def setting(self) -> Setting:
        """Evaluation setting."""

    @property
    def tasks(self) -> int:
        """Number of tasks."""

    def task_classes(self, task: int) -> tuple[int, ...]:
        """Return the classes of a task."""


def has_task_il(stream: TaskClasses) -> bool:
    """Return True if Task-IL is meaningful: different tasks have disjoint classes.

    Tasks may recur. If different tasks share a class, or all tasks have the same classes, knowing
    the task does not determine the classes to choose from.
    """
    if stream.setting != "class":
        return False
    groups = {frozenset(stream.task_classes(task)) for task in range(stream.tasks)}
    apart = sum(map(len, groups)) == len(frozenset().union(*groups))
    return apart and (len(groups) > 1 or stream.tasks == 1)


def packing_of(stream: object) -> Packing | None:
    """Return the packing of examples of several tensors; None for single tensors."""
    found: Packing | None = getattr(stream, "packing", None)
    return found


def target_of(stream: Stream) -> Target:
    """Return the target type of a stream, from its setting.

    >>> from recollect.streams import benchmark
    >>> target_of(benchmark("seq-digits")).name
    'class'
    """
    found = TARGETS.get(stream.setting, CLASS)
    return found.with_weights() if getattr(stream, "weighted", False) else found


def validation_of(stream: object) -> Stream:
    """Return the validation split of a stream, from its method `validation()`."""
    split = getattr(stream, "validation", None)
    if not callable(split):
        raise InputError(
            f"a {type(stream).__name__} has no validation split: give it a method validation() "
            "that returns a stream, or make the stream with recollect.from_arrays"
        )
    return cast(Stream, split())


def shuffled(seeds: Tensor, task: int, epoch: int, start: int, stop: int, size: int) -> Tensor:
    """Return positions start..stop-1 of a random order of `size` examples per run and epoch."""
    key = bits(seeds, Purpose.ORDER, task, epoch)
    return permute(key[:, None], torch.arange(start, stop, device=seeds.device), size)


def take(data: Tensor, ids: Tensor) -> Tensor:
    """Return `data[ids]`; copying row by row is much faster than indexing."""
    return data.index_select(0, ids.flatten()).view(*ids.shape, *data.shape[1:])


@final
class Copies:
    """Tensors that are copied to a device once, on first use there.

    A stream's tensors follow the device of the seeds, so a stream need not be moved to a device.
    """

    def __init__(self, *tensors: Tensor) -> None:
        self._home = tensors
        self._copies: dict[torch.device, tuple[Tensor, ...]] = {}

    def on(self, device: torch.device) -> tuple[Tensor, ...]:
        """Return the tensors on `device`; do not modify them."""
        if device not in self._copies:
            self._copies[device] = tuple(tensor.to(device) for tensor in self._home)
        return self._copies[device]
