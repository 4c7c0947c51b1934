"""What a method is, and what it sees of a step."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

import torch
from torch import Tensor, nn

from recollect.core.descent import Descent
from recollect.core.gradients import Gradients
from recollect.core.weights import Gradient, Weights
from recollect.errors import InputError
from recollect.memory import ClassRing, Clock, Memory, Remembered, Reservoir, Rule
from recollect.methods.kept import kept_network

__all__ = ["About", "Boundary", "Build", "Method", "Step", "symbol"]

Build = Callable[[], nn.Module] | nn.Module


class Step:
    """One step of K runs: the batch that arrived, the networks, and draws from memory.

    A method sees one in its `loss` or `learn`. This one only looks, and learns nothing:

    >>> from recollect import MLP, Fleet
    >>> @dataclass(frozen=True)
    ... class Look(Method):
    ...     name: ClassVar[str] = "look"
    ...     title: ClassVar[str] = "Look"
    ...
    ...     def loss(self, step: Step) -> Tensor:
    ...         (logits,) = step.net(step.x)
    ...         print(step.x.shape, step.y.shape, logits.shape)
    ...         return 0 * logits.sum((1, 2))
    >>> fleet = Fleet(
    ...     [Look()] * 2, lambda: MLP(4, 3), seeds=[0, 1], lr=[0.1] * 2, classes=3, shape=(4,)
    ... )
    >>> _ = fleet.learn(torch.rand(2, 10, 4), torch.zeros(2, 10, dtype=torch.long), batch=10)
    torch.Size([2, 10, 4]) torch.Size([2, 10]) torch.Size([2, 10, 3])
    """

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        descent: Descent,
        replays: Sequence[Remembered],
        own: Mapping[str, Tensor] | None = None,
        slots: Tensor | None = None,
        luck: Tensor | None = None,
    ) -> None:
        self.x = x
        self.y = y
        self.replays = list(replays)
        self.own = own or {}
        self.slots = torch.zeros_like(y) if slots is None else slots
        self.luck = torch.zeros_like(y) if luck is None else luck
        self.kept: dict[str, Tensor] = {}
        self._descent = descent
        self._drawn = 0

    def net(self, *parts: Tensor) -> tuple[Tensor, ...]:
        """The logits `[K, n, C]` of each part `[K, n, ...]`, as separate passes would give them.

        All parts go through the network in one pass, unless it has a state that one pass for each
        would change otherwise.
        """
        forward = self._descent.forward
        sizes = [part.shape[1] for part in parts]
        if self._descent.network.separate:
            passes = [
                forward(part, (size,)) if size else None
                for part, size in zip(parts, sizes, strict=True)
            ]
            some = next(logits for logits in passes if logits is not None)
            return tuple(some[:, :0] if logits is None else logits for logits in passes)
        logits = forward(torch.cat(parts, 1) if len(parts) > 1 else parts[0], sizes)
        return torch.split_with_sizes(logits, sizes, 1)

    def draw(self) -> Remembered:
        """The next draw from memory; it has no examples while the memory is empty."""
        if self._drawn == len(self.replays):
            raise InputError("the method draws more often than its `draws` says")
        self._drawn += 1
        return self.replays[self._drawn - 1]

    def remember(self, **fields: Tensor) -> None:
        """Give the fields that are kept besides x and y, should this batch enter the memory."""
        self.kept.update({name: value.detach() for name, value in fields.items()})

    def place(self, slots: Tensor) -> None:
        """Say where the batch goes in memory, `[K, B]`, instead of where the rule sends it."""
        self.slots = slots

    def look(self, x: Tensor, kept: str | Weights) -> Tensor:
        """The logits that other weights give, or the networks kept under a name in `own`.

        They are as in a test.
        """
        if isinstance(kept, Weights):
            return self._descent.look(x, kept)
        weights, buffers = kept_network(self.own, kept)
        return self._descent.look(x, weights, buffers)

    def features(self, x: Tensor) -> Tensor:
        """What the last dense layers read of x, as in a test, `[K, n, D]`."""
        return self._descent.features(x)

    def tested(self, x: Tensor) -> Tensor:
        """The logits of x as in a test, `[K, n, C]`, to be differentiated."""
        return self._descent.tested(x)[1]

    def ahead(self, direction: Gradient) -> Weights:
        """The weights that `descend` would lead to; these stay where they are."""
        return self._descent.ahead(direction)

    def begin(self, column: int) -> None:
        """Let this column of the networks compute, if the method has made them of columns."""
        self._descent.network.begin(column)

    def gradient_dots(self, x: Tensor, y: Tensor) -> Tensor:
        """The inner products of the gradients of single examples, `[K, n, n]`."""
        return self._descent.gradient_dots(x, y)

    def gradient(self, loss: Tensor) -> Gradient:
        """The gradient of a loss `[K]` of the passes since the last one was taken."""
        return self._descent.gradient(loss)

    def gradients(self, batches: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Gradients]:
        """The cross-entropy `[K, T]` of each of T batches (x, y), and their gradients."""
        return self._descent.gradients(batches)

    def descend(
        self,
        direction: Gradient | Weights,
        scale: Tensor | None = None,
        also: tuple[Gradient, Tensor] | None = None,
    ) -> None:
        """Move the weights against a gradient, by the learning rate (times `scale` `[K]`).

        The same step may go against a second gradient, times a scale `[K]` of its own.
        """
        self._descent.descend(direction, scale, also)

    @property
    def weights(self) -> Weights:
        """The weights of all runs; what is changed in place stays changed."""
        return self._descent.weights


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
    `shown` turns them into what a network reads. The clock stands at the first step to come, or
    just after the last one; the method's `own` tensors may be changed in place. `scratch` is a
    copy of the networks, to try something out; `batch` and `replay` are how many examples arrive
    and are replayed in a step.

    >>> from recollect import SGD, from_arrays, run
    >>> @dataclass(frozen=True)
    ... class Count(Method):
    ...     name: ClassVar[str] = "count"
    ...     title: ClassVar[str] = "Count"
    ...     needs_boundaries: ClassVar[bool] = True
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
    features: Callable[[Tensor], Tensor]
    scratch: Callable[[], Descent]

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


@dataclass(frozen=True)
class Method(ABC):
    """A way to learn from a stream, declared by its hyper-parameters and its loss.

    It is written for one run: a hyper-parameter is a number. In a fleet of K runs the same code
    sees a tensor `[K]` in its place, and returns a loss `[K]`. Most methods define `loss`; one
    that does more with the gradient than descend defines `learn` instead. Hyper-parameters in
    `shaping` are whole numbers that a fleet's runs share, and `batch` is the batch size that the
    method is defined for, if it is. A method that is random itself has `luck` random words for
    every example that arrives, and one that `places` says itself where each goes in memory. With
    `mixes_memory`, what is remembered when a task begins arrives again as a part of that task, in
    one random order with it. One that `revisits` looks at the examples of a task apart from its
    epochs, and what one that `grows` holds depends on the number of tasks. One that `needs_task` is
    told at a test which task an example belongs to, and may compute otherwise in every task.

    >>> from recollect import cross_entropy
    >>> @dataclass(frozen=True)
    ... class Careful(Method):
    ...     weight: float | Tensor = 1.0
    ...     name: ClassVar[str] = "careful"
    ...     title: ClassVar[str] = "Careful"
    ...
    ...     def loss(self, step: Step) -> Tensor:
    ...         (logits,) = step.net(step.x)
    ...         return self.weight * cross_entropy(logits, step.y)
    >>> Careful(0.5), Careful.hyperparameters(), Careful.uses_memory()
    (Careful(weight=0.5), ('weight',), False)
    """

    name: ClassVar[str]
    title: ClassVar[str]
    remembers: ClassVar[tuple[str, ...]] = ()
    draws: ClassVar[int] = 0
    shaping: ClassVar[tuple[str, ...]] = ()
    luck: ClassVar[int] = 0
    places: ClassVar[bool] = False
    batch: ClassVar[int | None] = None
    needs_boundaries: ClassVar[bool] = False
    needs_task: ClassVar[bool] = False
    needs_all_data: ClassVar[bool] = False
    revisits: ClassVar[bool] = False
    grows: ClassVar[bool] = False
    scores_features: ClassVar[bool] = False
    mixes_memory: ClassVar[bool] = False

    def loss(self, step: Step) -> Tensor:
        """What the step descends on, one value per run, `[K]`."""
        raise NotImplementedError(f"{type(self).__name__} must define loss or learn")

    def learn(self, step: Step) -> Tensor:
        """Change the weights of all runs by one step, in place; the loss `[K]`."""
        loss = self.loss(step)
        step.descend(step.gradient(loss))
        return loss.detach()

    def start_task(self, boundary: Boundary) -> None:  # noqa: B027 - most have nothing to do
        """What is to be done before a task; only for methods that need boundaries."""

    def extra_epochs(self) -> int:
        """How many epochs a task has on top, after `revise_task`."""
        return 0

    def revise_task(self, boundary: Boundary) -> None:  # noqa: B027 - most have nothing to do
        """What is to be done before the epochs on top."""

    def end_task(self, boundary: Boundary) -> None:  # noqa: B027 - most have nothing to do
        """What is to be done when a task is over; only for methods that need boundaries."""

    def kept(self, own: Mapping[str, Tensor]) -> int:
        """How many remembered examples arrive again with a task, if `mixes_memory` says so."""
        return 0

    def scores(self, features: Tensor, logits: Tensor, own: Mapping[str, Tensor]) -> Tensor:
        """What a test chooses the largest of, `[K, n, C]`, if `scores_features` says so."""
        return logits

    def network(self, build: Build, tasks: int) -> Build:
        """What the method makes of the network that it is given, for so many tasks."""
        return build

    def for_task(self, weights: Weights, own: Mapping[str, Tensor], task: int) -> Weights:
        """The weights that a test of a task uses, if `needs_task` says so."""
        return weights

    def grown(self, network: Mapping[str, Tensor], task: int) -> int:
        """By how many bytes a run's network, `[K, ...]` each, has grown since the first task."""
        return 0

    def draws_per_step(self) -> int:
        """How many replays a step asks for."""
        return self.draws

    def rule(self, capacity: int) -> Rule | ClassRing:
        """What decides which examples are kept and replayed."""
        return Reservoir(capacity)

    def own(self, about: About) -> dict[str, Tensor]:
        """What the method keeps besides its memory, `[K, ...]` each; a step changes it in place."""
        return {}

    @classmethod
    def hyperparameters(cls) -> tuple[str, ...]:
        """The names of the method's own hyper-parameters."""
        return tuple(field.name for field in fields(cls))

    @classmethod
    def varying(cls) -> tuple[str, ...]:
        """Those that may differ within a fleet: not the whole numbers that shape its step."""
        return tuple(name for name in cls.hyperparameters() if name not in cls.shaping)

    @classmethod
    def uses_memory(cls) -> bool:
        """Whether it replays what it remembers."""
        return bool(cls.remembers)


def symbol(hyperparameter: str) -> str:
    """A hyper-parameter as the paper writes it: Python has other plans for the word lambda.

    >>> symbol("lambda_"), symbol("alpha")
    ('lambda', 'alpha')
    """
    return hyperparameter.removesuffix("_")
