"""Callbacks: your own code, called while a fleet trains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from torch import Tensor

from recollect.errors import InputError, nearest
from recollect.memory import Clock

if TYPE_CHECKING:
    from recollect.streams.stream import Stream
    from recollect.train.fleet import Fleet

__all__ = ["Callback", "Point", "check_callback"]


@final
@dataclass(frozen=True)
class Point:
    """A point in the training of a fleet, as callbacks get it.

    Attributes:
        fleet: The runs that train; `fleet.seeds` says which.
        stream: What they learn from and are evaluated on.
        task: The number of the task, from 0.
        loss: The loss of the last step of every run, `[K]`; zeros before the first step.
    """

    fleet: Fleet
    stream: Stream
    task: int
    loss: Tensor

    @property
    def clock(self) -> Clock:
        """How many steps were taken and examples seen; in `on_task_end`, the next task's."""
        return self.fleet.clock


class Callback:
    """Your own code, called while a fleet trains; every method is optional.

    Callbacks are called in the process that called `recollect.run`, so all fleets train there,
    one after the other. What a callback measures takes no part in `train_seconds`.

    With callbacks, all runs are trained, also those that a store has. A callback may change what is
    trained, so results are not stored, and their `code` is not that of runs without it, unless
    the callback says that it only observes: `only_observes = True`.

    >>> class Losses(Callback):
    ...     every = 50
    ...     def on_steps(self, point: Point) -> None:
    ...         print(point.clock.steps, point.loss.shape)
    >>> import recollect
    >>> results = recollect.run("seq-digits", "sgd", seeds=2, callbacks=[Losses()])
    50 torch.Size([2])
    100 torch.Size([2])
    """

    every: int = 100
    only_observes: bool = False

    def on_task_start(self, point: Point) -> None:
        """A task begins: its first step comes next."""

    def on_steps(self, point: Point) -> None:
        """Another `every` steps were taken, counted from the start of the run."""

    def on_task_end(self, point: Point) -> None:
        """A task was learned and its accuracy measured."""

    def on_run_end(self, point: Point) -> None:
        """All tasks were learned; results come next."""


def check_callback(given: object) -> None:
    """Refuse a callback that would never be called, or whose interval is not one."""
    if not isinstance(given, Callback):
        raise InputError(f"a callback must be an instance of recollect.Callback, not {given!r}")
    kind = type(given)
    if not isinstance(given.every, int) or given.every < 1:
        raise InputError(
            f"`every` of {kind.__name__} must be a whole number of steps from 1 on, "
            f"not {given.every!r}"
        )
    known = [name for name in vars(Callback) if name.startswith("on_")]
    for name in dir(given):
        if name.startswith("on_") and name not in known:
            near = nearest(name, known)
            raise InputError(
                f"{kind.__name__} has {name}, which is never called: "
                + (f"did you mean {near}?" if near else f"it may have {', '.join(known)}")
            )
    if all(getattr(kind, name) is getattr(Callback, name) for name in known):
        raise InputError(
            f"{kind.__name__} does nothing: define {', '.join(known[:-1])} or {known[-1]}"
        )
