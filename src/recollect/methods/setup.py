"""Declarations of a method: requirements, replay, and the setup of a fleet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor, nn

from recollect.core.model import Model
from recollect.errors import InputError
from recollect.memory import Balanced, Policy, Reservoir, Stored
from recollect.memory.policy import check_members
from recollect.methods.options import static

if TYPE_CHECKING:
    from recollect.methods.base import Method

Build = Callable[[], nn.Module] | nn.Module
Layout = tuple[tuple[int, ...], torch.dtype]  # the shape and type of a field, for one example

KNOWN = ("x", "y", "logits")
STEP = ("read", "write", "slots", "key", "views", "noise", "factor")  # a step's arguments
TAKEN = {*dir(Stored), "valid"}  # attributes of every draw


@final
@dataclass(frozen=True)
class Needs:
    """The requirements of a method on the stream, as in Table 1 of the paper.

    >>> Needs(boundaries=True).boundaries, Needs().batch_size is None
    (True, True)

    Attributes:
        boundaries: It needs task boundaries: `start_task` and `end_task` are called.
        task_id: It needs the task of an example to predict (a test-time oracle).
        all_data: It needs the data of all tasks at once.
        revisits: It reads examples of a task in addition to its epochs.
        grows: Its size depends on the number of tasks.
        batch_size: The only batch size that it is defined for; None for any.
    """

    boundaries: bool = False
    task_id: bool = False
    all_data: bool = False
    revisits: bool = False
    grows: bool = False
    batch_size: int | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name != "batch_size" and not isinstance(value, bool):
                raise InputError(f"`{name}` of Needs is {value!r}: it must be True or False")
        if self.batch_size is not None and not _whole(self.batch_size, 1):
            raise InputError(
                f"`batch_size` of Needs is {self.batch_size!r}: it must be a whole number of "
                f"at least 1, or None"
            )


@final
@dataclass(frozen=True)
class Field:
    """A field of the memory: its name, and the shape and type of one example.

    >>> Field("task", (), torch.int64).shape
    ()
    """

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32

    def __post_init__(self) -> None:
        sizes = isinstance(self.shape, tuple) and all(_whole(size, 0) for size in self.shape)
        if not (isinstance(self.name, str) and sizes and isinstance(self.dtype, torch.dtype)):
            raise InputError(f"{self!r}: a field needs a name, a tuple of sizes and a torch.dtype")
        if self.name in TAKEN:
            raise InputError(f"the field name {self.name!r} is reserved: choose another name")


@final
@dataclass(frozen=True)
class Replay:
    """The fields that a method stores of an example, and the number of draws from memory per step.

    The fields `x`, `y` and `logits` are declared by name, others as a `Field`.

    >>> Replay(("x", "y", Field("weight", ())), draws=2).names
    ('x', 'y', 'weight')
    """

    fields: tuple[str | Field, ...]
    draws: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.fields, tuple) or not self.fields:
            raise InputError(
                f"the fields of a replay are {self.fields!r}: pass a tuple of the fields to store, "
                f"such as Replay(('x', 'y'))"
            )
        for each in self.fields:
            if not isinstance(each, Field) and each not in KNOWN:
                raise InputError(
                    f"only the fields x, y and logits can be declared by name: declare {each!r} as "
                    f"Field({each!r}, shape, dtype)"
                )
        if len(set(self.names)) < len(self.names):
            raise InputError(f"the replay {self.names} has a field twice: remove one of them")
        if not _whole(self.draws, 0):
            raise InputError(f"`draws` is {self.draws!r}: it must be a whole number of at least 0")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields."""
        return tuple(each if isinstance(each, str) else each.name for each in self.fields)

    def layout(
        self,
        known: Mapping[str, Layout],
        outputs: int,
        dtype: torch.dtype,
        given: Sequence[Field] = (),
    ) -> dict[str, Layout]:
        """The shape and type of every field, given those of x and y and the number of outputs.

        `given` are further fields that the caller provides with every example.
        """
        known = {**known, "logits": ((outputs,), dtype)}
        known |= {e.name: (e.shape, e.dtype) for e in self.fields if isinstance(e, Field)}
        found = {name: known[name] for name in self.names}
        for each in given:
            if each.name in {*found, *STEP}:
                raise InputError(f"the field name {each.name!r} is reserved: choose another name")
            found[each.name] = each.shape, each.dtype
        return found


@final
@dataclass(frozen=True)
class Spec:
    """The dimensions of a fleet, known before its networks are built.

    There are `runs` runs with a memory of `capacity` examples each; the stream has `classes`
    classes in `tasks` tasks of at most `per_task` classes, and examples of shape `shape`.

    >>> Spec(runs=2, capacity=200, classes=10, tasks=5, per_task=2, shape=(28, 28)).tasks
    5
    """

    runs: int
    capacity: int
    classes: int
    tasks: int
    per_task: int
    shape: tuple[int, ...]


@final
@dataclass(frozen=True)
class SlotState:
    """State with a row for every slot of the memory and a spare row, `[K, capacity + 1, ...]`.

    Rows of removed examples are set to `empty`: the class tells `Learner.forget` which state
    belongs to slots.

    >>> SlotState(torch.zeros(2, 11)).empty
    0.0
    """

    tensor: Tensor
    empty: float = 0.0


@final
@dataclass(frozen=True)
class Setup:
    """The setup of a fleet for a method; all attributes are optional.

    Attributes:
        policy: The memory policy; by default a reservoir, or a class-balanced one if the method
            has a hyper-parameter `balanced` that is on.
        replay: The stored fields and number of draws, if they depend on hyper-parameters.
        state: A function that creates the method's state, named tensors `[K, ...]`; a tensor with a
            row for every slot of the memory is a `SlotState`.
        network: A function that turns the user's network into the network to train.

    >>> from recollect.memory import TaskRing
    >>> Setup(policy=TaskRing(60), state=lambda model: {"steps": torch.zeros(model.runs)}).policy
    TaskRing(capacity=60, whole=False)
    """

    policy: Policy | None = None
    replay: Replay | None = None
    state: Callable[[Model], Mapping[str, Tensor | SlotState]] = field(default=lambda model: {})
    network: Callable[[Build], Build] = field(default=lambda build: build)


def setup_of(method: Method, spec: Spec) -> Setup:
    """The setup of a method with defaults filled in; without a replay, there is no policy.

    >>> from recollect import ER
    >>> spec = Spec(1, 200, 10, 5, 2, (28, 28))
    >>> setup_of(ER(), spec).policy, setup_of(ER(balanced=True), spec).policy
    (Reservoir(capacity=200), Balanced(capacity=200))
    """
    for name in static(type(method)):
        if not isinstance(value := getattr(method, name), int):
            raise InputError(f"{name} of {method.title} must be a whole number, not {value!r}")
    setup: object = method.setup(spec)
    if not isinstance(setup, Setup):
        raise InputError(f"setup of {method.title} must return a recollect.Setup, not {setup!r}")
    stores = setup.replay or method.replay
    if stores is None:
        return setup
    usual = Balanced if getattr(method, "balanced", False) else Reservoir
    policy = setup.policy or usual(spec.capacity)
    check_members(policy)
    if policy.uses_labels and "y" not in stores.names:
        stores = Replay((*stores.fields, "y"), stores.draws)
    return replace(setup, replay=stores, policy=policy)


def state_of(setup: Setup, model: Model) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Create a method's initial state; also returns the empty value of every `SlotState`.

    >>> made = Setup(state=lambda model: {"score": SlotState(torch.zeros(1, 3), empty=-1.0)})
    >>> state_of(made, model=None)
    ({'score': tensor([[0., 0., 0.]])}, {'score': -1.0})
    """
    maker: object = setup.state
    if not callable(maker):
        raise InputError(
            f"the state of a Setup must be a function of the model, such as lambda model: {{...}}, "
            f"not a {type(maker).__name__}"
        )
    made = setup.state(model)
    for name, each in made.items():
        if not isinstance(each, Tensor | SlotState):
            raise InputError(
                f"the state {name!r} must be a tensor [K, ...], such as torch.zeros(spec.runs), "
                f"not {each!r}"
            )
    by_slot = {name: each.empty for name, each in made.items() if isinstance(each, SlotState)}
    tensors = {n: each.tensor if isinstance(each, SlotState) else each for n, each in made.items()}
    return tensors, by_slot


def _whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
