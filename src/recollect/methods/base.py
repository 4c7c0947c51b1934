"""The base classes of continual learning methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from torch import Tensor, nn

from recollect.core.weights import State
from recollect.errors import InputError
from recollect.methods.options import check_hyperparameters, hyper, recorded_values
from recollect.methods.setup import Needs, Replay, Setup, SlotState, Spec
from recollect.methods.step import Step
from recollect.methods.task import Query, Task

# Everything that the module of a method needs to import.
__all__ = [
    "Classifier",
    "ClosedForm",
    "Method",
    "Needs",
    "Query",
    "Replay",
    "Setup",
    "SlotState",
    "Spec",
    "Step",
    "Task",
    "hyper",
]

# Declarations of recollect 0.1 with their replacements; without an error they would be ignored.
RENAMED = {
    "remembers": 'replay = Replay(("x", "y"), draws=1)',
    "shaping": "an annotation: hyper-parameters annotated `int` are static",
    "luck": "step.random(n), without a declaration",
    "needs_boundaries": "needs = Needs(boundaries=True)",
    "needs_task": "needs = Needs(task_id=True)",
    "needs_all_data": "needs = Needs(all_data=True)",
}


def _repr(method: Method) -> str:
    # Unlike the dataclass's repr, omits hyper-parameters that were added later and have defaults.
    values = (f"{name}={value!r}" for name, value in recorded_values(method).items())
    return f"{type(method).__name__}({', '.join(values)})"


@dataclass(frozen=True)
class Method(ABC):
    """Base class of continual learning methods: hyper-parameters, replay declaration, and a loss.

    A method is written for a single run, with numbers as hyper-parameters. In a fleet of K runs,
    they are tensors `[K]`, and the loss is `[K]`. A hyper-parameter annotated `int` is static: it
    stays a number and is the same for all runs of a fleet.

    Most methods define `loss`. A method that does more with the gradient than a plain step defines
    `update` instead. All other members are optional.

    >>> from recollect import hyper
    >>> @dataclass(frozen=True)
    ... class Careful(Method):
    ...     weight: float | Tensor = hyper(1.0, "weight of the loss")
    ...     name: ClassVar[str] = "careful"
    ...     title: ClassVar[str] = "Careful"
    ...
    ...     def loss(self, step: Step) -> Tensor:
    ...         (logits,) = step.net(step.x)
    ...         return self.weight * step.criterion(logits, step.y)
    >>> Careful(0.5), Careful.replay, Careful.needs.boundaries
    (Careful(weight=0.5), None, False)
    """

    def __init_subclass__(cls) -> None:
        for old, new in RENAMED.items():
            if old in vars(cls):
                raise InputError(f"{cls.__name__}: `{old}` of recollect 0.1 is now {new}")
        for name, right in (("needs", Needs), ("replay", Replay | None)):
            if not isinstance(value := getattr(cls, name), right):
                raise InputError(
                    f"`{name}` of {cls.__name__} is {value!r}: it must be a "
                    f"recollect.{name.title()}(...)"
                )
        if "__repr__" not in vars(cls):
            cls.__repr__ = _repr  # type: ignore[assignment, method-assign]

    def __post_init__(self) -> None:
        """Raise an `InputError` for a hyper-parameter that no run can have."""
        check_hyperparameters(self, tensors=True)

    name: ClassVar[str]
    title: ClassVar[str]
    needs: ClassVar[Needs] = Needs()
    replay: ClassVar[Replay | None] = None

    def setup(self, spec: Spec) -> Setup:
        """Configure the memory policy, state and network, if they differ from the defaults."""
        return Setup()

    def loss(self, step: Step) -> Tensor:
        """Compute the training loss of a step, one value per run, `[K]`."""
        raise NotImplementedError(f"{type(self).__name__} must define loss or update")

    def update(self, step: Step) -> Tensor:
        """Update the weights of all runs in place and return the loss `[K]`."""
        loss = self.loss(step)
        step.model.descend(step.model.gradient(loss))
        return loss.detach()

    def start_task(self, task: Task) -> None:  # noqa: B027 - most have nothing to do
        """Called before a task, if the method needs boundaries."""

    def end_task(self, task: Task) -> None:  # noqa: B027 - most have nothing to do
        """Called after a task, if the method needs boundaries."""

    def predict(self, query: Query) -> Tensor:
        """Compute scores `[K, n, C]`; the class with the largest score is predicted."""
        return query.model.logits(query.x)


def uncalled_hook(kind: type[Method]) -> str | None:
    """Say which hook a method defines that is never called; None if there is none."""
    for hook in ("start_task", "end_task"):
        if getattr(kind, hook) is not getattr(Method, hook) and not kind.needs.boundaries:
            return f"it defines {hook}, which is only called if it declares Needs(boundaries=True)"
    return None


class Classifier(Method):
    """Base class of methods that use the class labels `step.y` `[K, B]` directly.

    Other methods only pass the targets to `step.criterion`, so they also support regression,
    multi-label targets and example weights. A `Classifier` does not.

    >>> from recollect.methods import ERACE, DERpp
    >>> issubclass(ERACE, Classifier), issubclass(DERpp, Classifier)
    (True, False)
    """


class ClosedForm(Classifier):
    """Base class of methods that solve for a classifier in closed form; weights are not trained.

    They define `update`, which changes the method's state, `predict`, and `export`. Without a
    network, the examples themselves are the features.

    >>> from recollect.methods import NCM, DERpp
    >>> issubclass(NCM, ClosedForm), issubclass(DERpp, ClosedForm)
    (True, False)
    """

    @abstractmethod
    def export(self, module: nn.Module, state: State) -> nn.Module:
        """Write the solution to the last layer of one run's network, and return the network."""


@runtime_checkable
class Exports(Protocol):
    """A method with its own `predict` that can be expressed as a plain network."""

    def export(self, module: nn.Module, state: State) -> nn.Module:
        """Change the network of one run so that its outputs are the method's predictions."""


def exported(method: Method, module: nn.Module, state: State) -> nn.Module:
    """Return a network of one run whose outputs are the method's predictions.

    Raises an `InputError` if the method predicts otherwise and has no `export`.
    """
    if isinstance(method, Exports):
        return method.export(module, state)
    if type(method).predict is not Method.predict:
        raise InputError(
            f"{method.title} does not predict with the outputs of its network alone, so an "
            f"exported module would differ: save the learner, or define `export` in the method"
        )
    return module
