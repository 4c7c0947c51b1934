"""What a method is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from recollect.core.weights import State
from recollect.errors import InputError
from recollect.methods.options import hyper, told
from recollect.methods.setup import Needs, Replay, Setup, SlotState, Spec
from recollect.methods.step import Step
from recollect.methods.task import Query, Task

# All that the file of a method imports.
__all__ = [
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

# Declarations of the first version, of which nothing else would tell that they are ignored.
RENAMED = {
    "remembers": 'replay = Replay(("x", "y"), draws=1)',
    "shaping": "an annotation: hyper-parameters annotated `int` are static",
    "luck": "step.random(n), without a declaration",
    "needs_boundaries": "needs = Needs(boundaries=True)",
    "needs_task": "needs = Needs(task_id=True)",
    "needs_all_data": "needs = Needs(all_data=True)",
}


def _repr(method: Method) -> str:
    # Not the dataclass's, which would show hyper-parameters that were added later and are off.
    values = (f"{name}={value!r}" for name, value in told(method).items())
    return f"{type(method).__name__}({', '.join(values)})"


@dataclass(frozen=True)
class Method(ABC):
    """A way to learn from a stream: hyper-parameters, what it replays, and a loss.

    It is written for one run: a hyper-parameter is a number. In a fleet of K runs the same code
    sees a tensor `[K]` in its place, and returns a loss `[K]`. A hyper-parameter annotated `int` is
    static: it stays a number, and all runs of a fleet share it.

    Most methods define `loss`. One that does more with the gradient than descend defines `update`
    instead. All other members are optional.

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
                    f"`{name}` of {cls.__name__} is {value!r}: give recollect.{name.title()}(...)"
                )
        if "__repr__" not in vars(cls):
            cls.__repr__ = _repr  # type: ignore[assignment, method-assign]

    name: ClassVar[str]
    title: ClassVar[str]
    needs: ClassVar[Needs] = Needs()
    replay: ClassVar[Replay | None] = None

    def setup(self, spec: Spec) -> Setup:
        """The memory policy, the state and the network, if they are not the usual ones."""
        return Setup()

    def loss(self, step: Step) -> Tensor:
        """What the step descends on, one value per run, `[K]`."""
        raise NotImplementedError(f"{type(self).__name__} must define loss or update")

    def update(self, step: Step) -> Tensor:
        """Change the weights of all runs by one step, in place; return the loss `[K]`."""
        loss = self.loss(step)
        step.model.descend(step.model.gradient(loss))
        return loss.detach()

    def start_task(self, task: Task) -> None:  # noqa: B027 - most have nothing to do
        """Called before a task, if the method needs boundaries."""

    def end_task(self, task: Task) -> None:  # noqa: B027 - most have nothing to do
        """Called after a task, if the method needs boundaries."""

    def predict(self, query: Query) -> Tensor:
        """The scores `[K, n, C]` of which the largest is the prediction."""
        return query.model.logits(query.x)


class ClosedForm(Method):
    """A method that solves for its predictions instead of training weights, which stay.

    It defines `update`, which changes its state, `predict`, and `export`. Where no network is
    given, its features are the examples.

    >>> from recollect.methods import NCM, DERpp
    >>> issubclass(NCM, ClosedForm), issubclass(DERpp, ClosedForm)
    (True, False)
    """

    @abstractmethod
    def export(self, module: nn.Module, state: State) -> nn.Module:
        """The network of one run with what was learned in its last layer: its outputs predict."""
