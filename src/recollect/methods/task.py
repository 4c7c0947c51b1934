"""What a method sees between tasks and at a prediction, and what it can do there."""

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

__all__ = ["Query", "Requests", "Task"]

ROWS = 1000


@final
@dataclass
class Requests:
    """What a method asks of the training loop: examples to rehearse, and further epochs.

    Examples can be rehearsed with a task that begins, and a task that ends can be extended.
    """

    ending: bool = False
    rehearsed: int = 0
    epochs: int = 0


@dataclass(frozen=True)
class Task:
    """A task that begins or ends: its examples, the model, the method's state and its memory.

    The clock stands at the first step to come, or just after the last one. `state`, `memory` and
    `model` may be changed in place; `model.copy()` is a copy to try something out.

    Attributes:
        count: How many examples the task has.
        batch: How many of them arrive in a step.
        replay: How many stored ones a draw has.
        examples: The stored form x and the labels y of the examples at an index `[K, n]`.
        inputs: Turns stored examples into inputs of the networks, without augmentation.
        training_logits: The logits of stored examples in training mode, augmented, in batches of
            `batch`; running statistics of normalisation layers move. The augmentation is the same
            when it is called again.

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
        """The logits `[K, n, C]` of stored examples `[K, n, ...]`, in evaluation mode."""
        return self._parts(self.model.logits, x)

    def features(self, x: Tensor) -> Tensor:
        """The features `[K, n, D]` of stored examples `[K, n, ...]`, in evaluation mode."""
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
        """The same index `[n]` for every run, `[K, n]`."""
        return index.to(self.seeds.device).expand(len(self.seeds), -1)

    def rehearse(self, count: int) -> None:
        """Mix the first `count` stored examples with those of the task that begins.

        They arrive in one random order with the examples of the task, in every epoch. The memory
        must not change before the task ends.
        """
        if self.requests.ending:
            raise InputError("a task is rehearsed from its start: call task.rehearse in start_task")
        if not 0 <= count <= self.memory.capacity:
            raise InputError(f"a memory of {self.memory.capacity} has no {count} examples")
        self.requests.rehearsed = count

    def extend(self, epochs: int) -> None:
        """Train on the task that ends for so many more epochs."""
        if not self.requests.ending:
            raise InputError("a task is extended when it ends: call task.extend in end_task")
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
    """Examples to predict, with the model, the method's state and its memory; all are read only.

    `x` `[K, n, ...]` are the inputs of the networks. `task` is the task that the examples belong
    to, for methods that need it; there are `classes` to choose from. `inputs` turns stored examples
    into inputs of the networks.

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
