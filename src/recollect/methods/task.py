"""The interface between a method and task boundaries and predictions."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import final

import torch
from torch import Tensor

from recollect.core.model import Model
from recollect.core.weights import State
from recollect.errors import InputError
from recollect.memory import Clock, Memory

ROWS = 1000


@final
@dataclass
class Requests:
    """Requests of a method to the training loop: examples to rehearse, and further epochs.

    Examples can be rehearsed from task start, and a task can be extended at its end.
    """

    ending: bool = False
    rehearsed: int = 0
    epochs: int = 0


@dataclass(frozen=True)
class Task:
    """A task at its start or end: its examples, the model, the method's state and its memory.

    The clock is that of the next step at task start, and after the last step at task end. `state`,
    `memory` and `model` may be changed in place; use `model.copy()` for a temporary model.

    Attributes:
        count: The number of examples of the task.
        batch: The batch size.
        replay: The number of stored examples in a draw.
        examples: A function from indices `[K, n]` to the stored form x and the labels y.
        inputs: A function from stored examples to network inputs, without augmentation.
        training_logits: A function from stored examples to their logits in training mode, with
            augmentation, in batches of `batch`; running statistics are updated. The augmentation
            is the same in every call.

    >>> from recollect import SGD, Needs, from_arrays, run
    >>> class Count(SGD):
    ...     needs = Needs(boundaries=True)
    ...
    ...     def end_task(self, task: Task) -> None:
    ...         print(task.count, task.labels().unique().tolist())
    >>> y = torch.arange(40) % 2
    >>> stream = from_arrays(y[:, None].float(), y, tasks=[[0], [1]])
    >>> _ = run(stream, Count, seeds=1, lr=0.1, workers=1)
    16 [0]
    16 [1]
    """

    clock: Clock
    seeds: Tensor
    model: Model
    state: State
    memory: Memory
    count: int
    batch: int
    replay: int
    examples: Callable[[Tensor], tuple[Tensor, Tensor]]
    inputs: Callable[[Tensor], Tensor]
    training_logits: Callable[[Tensor], Tensor]
    requests: Requests = field(default_factory=Requests)

    def logits(self, x: Tensor) -> Tensor:
        """Compute the logits `[K, n, C]` of stored examples `[K, n, ...]`, in evaluation mode."""
        return self._parts(self.model.logits, x)

    def features(self, x: Tensor) -> Tensor:
        """Compute the features `[K, n, D]` of stored examples `[K, n, ...]`, in evaluation mode."""
        return self._parts(self.model.features, x)

    def labels(self) -> Tensor:
        """The labels of the whole task, `[K, count]`."""
        return self.examples(self.for_all(torch.arange(self.count)))[1]

    def mark_classes(self, name: str = "now") -> Tensor:
        """Set `state[name]`, `[K, C]`, to the classes of the task; return the task's labels."""
        labels = self.labels()
        marks = torch.ones_like(labels, dtype=torch.bool)
        self.state[name].zero_().scatter_(1, labels, marks)
        return labels

    def for_all(self, index: Tensor) -> Tensor:
        """Expand an index `[n]` to all runs, `[K, n]`."""
        return index.to(self.seeds.device).expand(len(self.seeds), -1)

    def rehearse(self, count: int) -> None:
        """Add the first `count` stored examples to the data of the task that starts.

        They are shuffled with the examples of the task in every epoch. The memory must not change
        before the task ends.
        """
        if self.requests.ending:
            raise InputError("task.rehearse can only be called in start_task, not in end_task")
        if not 0 <= count <= self.memory.capacity:
            raise InputError(
                f"task.rehearse got {count} examples: it must be in 0..{self.memory.capacity}, the "
                f"capacity of the memory"
            )
        self.requests.rehearsed = count

    def extend(self, epochs: int) -> None:
        """Train on the task that ends for a number of further epochs."""
        if not self.requests.ending:
            raise InputError("task.extend can only be called in end_task, not in start_task")
        self.requests.epochs = epochs

    def _parts(self, function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        network, found = self.model.network, []
        for part in x.split(ROWS, 1):  # type: ignore[no-untyped-call]
            with network.seeded(0) if network.noisy else nullcontext():
                found.append(function(self.inputs(part)))
        return torch.cat(found, 1)


@final
@dataclass(frozen=True)
class Query:
    """Examples to predict, with the model, the method's state and its memory, all read-only.

    `x` `[K, n, ...]` are network inputs. `task` is the task of the examples, for methods that need
    it; `classes` is the number of classes. `inputs` is a function from stored examples to network
    inputs.

    >>> import torch
    >>> from recollect import MLP, SGD, Fleet
    >>> class Loud(SGD):
    ...     def predict(self, query: Query) -> Tensor:
    ...         print(query.x.shape, query.classes)
    ...         return query.model.logits(query.x)
    >>> fleet = Fleet([Loud()], lambda: MLP(4, 3), seeds=[0], lr=[0.1], classes=3, shape=(4,))
    >>> fleet.predict(torch.zeros(1, 5, 4)).shape
    torch.Size([1, 5, 4]) 3
    torch.Size([1, 5, 3])
    """

    x: Tensor
    task: int
    classes: int
    model: Model
    state: State
    memory: Memory
    clock: Clock
    inputs: Callable[[Tensor], Tensor]
