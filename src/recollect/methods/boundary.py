"""What a method may know before it starts, and of tasks that begin and end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from recollect.core.descent import Descent
from recollect.core.weights import Weights
from recollect.memory import Clock, Memory

__all__ = ["About", "Boundary"]


@dataclass(frozen=True)
class About:
    """What a method may know of its fleet before it starts.

    A task has at most `per_task` classes; `features` is how many the last dense layer reads, and
    `head` names its parameters, each with the axis of the classes.

    >>> about = About(2, 100, 10, 5, 2, (28, 28), 100, {"head.weight": 0}, {}, {})
    >>> torch.zeros(about.runs, about.classes).shape  # such as `own` makes for every run
    torch.Size([2, 10])
    """

    runs: int
    capacity: int
    classes: int
    tasks: int
    per_task: int
    shape: tuple[int, ...]
    features: int
    head: Mapping[str, int]
    weights: Mapping[str, Tensor]
    buffers: Mapping[str, Tensor]


@dataclass(frozen=True)
class Boundary:
    """A task that begins or is over, as a method may look at it.

    It has `count` examples; `examples` gives those at some of its places `[K, n]`, as they are
    kept, and `logits` and `features` what the networks make of such examples now, as in a test.
    `shown` turns them into what a network reads. `training_logits` are those of a forward pass in
    training mode, on augmented examples in batches of `batch`: it moves the running statistics of
    normalisation layers, and augments alike when called again. The clock stands at the first step
    to come, or just after the last one; the method's `own` tensors may be changed in place.
    `scratch` is a copy of the networks, to try something out; `batch` and `replay` are how many
    examples arrive and are replayed in a step.

    >>> from recollect import SGD, Method, Step, from_arrays, run
    >>> @dataclass(frozen=True)
    ... class Count(Method):
    ...     name = "count"
    ...     title = "Count"
    ...     needs_boundaries = True
    ...
    ...     def loss(self, step: Step) -> Tensor:
    ...         return SGD().loss(step)
    ...
    ...     def end_task(self, boundary: Boundary) -> None:
    ...         print(boundary.count, boundary.labels().unique().tolist())
    >>> y = torch.arange(40) % 2
    >>> stream = from_arrays(y[:, None].float(), y, tasks=[[0], [1]])
    >>> _ = run(stream, Count, seeds=1, lr=0.1, workers=1)
    16 [0]
    16 [1]
    """

    clock: Clock
    seeds: Tensor
    memory: Memory
    own: Mapping[str, Tensor]
    weights: Weights
    buffers: Mapping[str, Tensor]
    batch: int
    replay: int
    count: int
    examples: Callable[[Tensor], tuple[Tensor, Tensor]]
    shown: Callable[[Tensor], Tensor]
    logits: Callable[[Tensor], Tensor]
    training_logits: Callable[[Tensor], Tensor]
    features: Callable[[Tensor], Tensor]
    scratch: Callable[[], Descent]

    @property
    def ones(self) -> Tensor:
        """A one for every run, `[K]`, in the type of the weights."""
        return next(iter(self.weights)).new_ones(len(self.seeds))

    def take(self, tried: Descent) -> None:
        """Let the networks be what became of their copy."""
        pairs = [*zip(self.weights, tried.weights, strict=True)]
        pairs += [(mine, tried.buffers[name]) for name, mine in self.buffers.items()]
        for mine, theirs in pairs:
            mine.copy_(theirs)

    def note_classes(self) -> Tensor:
        """Let `own["now"]`, `[K, C]`, say which classes the task has; its labels."""
        labels, now = self.labels(), self.own["now"]
        now.zero_().scatter_(1, labels, torch.ones_like(labels, dtype=torch.bool))
        return labels

    def labels(self) -> Tensor:
        """The labels of the whole task, `[K, count]`."""
        places = torch.arange(self.count, device=self.seeds.device)
        return self.examples(places.expand(len(self.seeds), -1))[1]

    def for_all(self, slots: Tensor) -> Tensor:
        """The same slots `[n]` for every run, `[K, n]`."""
        return slots.to(self.seeds.device).expand(len(self.seeds), -1)
