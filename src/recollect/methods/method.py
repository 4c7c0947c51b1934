"""What a method is."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import ClassVar

from torch import Tensor, nn

from recollect.core.weights import Weights
from recollect.memory import ClassRing, Reservoir, Rule
from recollect.methods.boundary import About, Boundary
from recollect.methods.step import Step

__all__ = ["Build", "Method", "symbol"]

Build = Callable[[], nn.Module] | nn.Module


@dataclass(frozen=True)
class Method(ABC):
    """A way to learn from a stream, declared by its hyper-parameters and its loss.

    It is written for one run: a hyper-parameter is a number. In a fleet of K runs the same code
    sees a tensor `[K]` in its place, and returns a loss `[K]`. Most methods define `loss`; one
    that does more with the gradient than descend defines `learn` instead. Hyper-parameters in
    `shaping` are whole numbers that a fleet's runs share, and `batch` is the batch size that the
    method is defined for, if it is. A method that is random itself has `luck` random words for
    every example that arrives, and one that `places` says itself where each goes in memory. One
    that `sees_plain` is given images without augmentation too, as `step.plain` and as a field
    `plain` of what it draws. With `mixes_memory`, what is remembered when a task begins arrives
    again as a part of that task, in one random order with it. One that `revisits` looks at the
    examples of a task apart from its epochs, and what one that `grows` holds depends on the number
    of tasks. One that `needs_task` is told at a test which task an example belongs to, and may
    compute otherwise in every task.

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
    sees_plain: ClassVar[bool] = False
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
