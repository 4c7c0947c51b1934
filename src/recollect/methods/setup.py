"""What a method declares: what it needs, what it replays, and how a fleet is set up for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor, nn

from recollect.core.model import Model
from recollect.errors import InputError
from recollect.memory import Policy, Reservoir

if TYPE_CHECKING:
    from recollect.methods.method import Method

__all__ = ["Build", "Field", "Needs", "Replay", "Setup", "Spec", "setup_of"]

Build = Callable[[], nn.Module] | nn.Module


@final
@dataclass(frozen=True)
class Needs:
    """What a method asks of a stream: the requirements of the paper's Table 1.

    >>> Needs(boundaries=True).boundaries, Needs().batch_size is None
    (True, True)

    Attributes:
        boundaries: `start_task` and `end_task` are called between tasks.
        task_id: A prediction must say which task an example belongs to.
        all_data: It sees all tasks at once.
        revisits: It reads examples of a task apart from its epochs.
        grows: Its size depends on the number of tasks.
        batch_size: The batch size that it is defined for, if it is.
    """

    boundaries: bool = False
    task_id: bool = False
    all_data: bool = False
    revisits: bool = False
    grows: bool = False
    batch_size: int | None = None


@final
@dataclass(frozen=True)
class Field:
    """A field of the memory: its name, and the shape and type that it has for one example.

    >>> Field("task", (), torch.int64).shape
    ()
    """

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32


@final
@dataclass(frozen=True)
class Replay:
    """What a method stores of an example, and how many draws from memory a step has.

    The fields `x`, `y` and `logits` are known by name; others are given as `Field`.

    >>> Replay(("x", "y", Field("weight", ())), draws=2).names
    ('x', 'y', 'weight')
    """

    fields: tuple[str | Field, ...]
    draws: int = 1

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields."""
        return tuple(each if isinstance(each, str) else each.name for each in self.fields)

    def layout(
        self, x: tuple[tuple[int, ...], torch.dtype], outputs: int, dtype: torch.dtype
    ) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
        """The shape and type of every field, given those of an example and the outputs."""
        known = {"x": x, "y": ((), torch.int64), "logits": ((outputs,), dtype)}
        for each in self.fields:
            if isinstance(each, str) and each not in known:
                raise InputError(
                    f"a memory knows the fields x, y and logits by name: declare {each!r} as "
                    f"Field({each!r}, shape, dtype)"
                )
        return {
            each if isinstance(each, str) else each.name: (
                known[each] if isinstance(each, str) else (each.shape, each.dtype)
            )
            for each in self.fields
        }


@final
@dataclass(frozen=True)
class Spec:
    """What is known of a fleet before its networks are made.

    There are `runs` runs with a memory of `capacity` examples each; the stream has `classes` in
    `tasks` tasks of at most `per_task` classes, and examples of a `shape`.

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
class Setup:
    """How a fleet is set up for a method; what is left out stays as it is for most methods.

    Attributes:
        policy: Which examples are stored and replayed; a reservoir unless it is given.
        replay: What is stored and how many draws a step has, if the hyper-parameters decide.
        state: Makes the tensors `[K, ...]` that the method keeps from step to step.
        network: Makes the network that is trained of the one that the user gave.

    >>> from recollect.memory import TaskRing
    >>> Setup(policy=TaskRing(60), state=lambda model: {"steps": torch.zeros(model.runs)}).policy
    TaskRing(capacity=60, whole=False)
    """

    policy: Policy | None = None
    replay: Replay | None = None
    state: Callable[[Model], Mapping[str, Tensor]] = field(default=lambda model: {})
    network: Callable[[Build], Build] = field(default=lambda build: build)


def setup_of(method: Method, spec: Spec) -> Setup:
    """The setup of a method with what it leaves out filled in; without a replay, no policy.

    >>> from recollect import ER
    >>> setup_of(ER(), Spec(1, 200, 10, 5, 2, (28, 28))).policy
    Reservoir(capacity=200)
    """
    setup = method.setup(spec)
    stores = setup.replay or method.replay
    if stores is None:
        return setup
    return replace(setup, replay=stores, policy=setup.policy or Reservoir(spec.capacity))
