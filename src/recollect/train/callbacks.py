"""Callbacks: user code that is called during training."""

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
    """A point in the training of a fleet, passed to callbacks.

    Attributes:
        fleet: The runs in training; `fleet.seeds` identifies them.
        stream: The stream that they are trained and evaluated on.
        task: The index of the task, from 0.
        loss: The loss of the last step of every run, `[K]`; zeros before the first step.
    """

    fleet: Fleet
    stream: Stream
    task: int
    loss: Tensor

    @property
    def clock(self) -> Clock:
        """The numbers of steps and examples so far; in `on_task_end`, for the next task."""
        return self.fleet.clock


class Callback:
    """Base class of callbacks: user code called during training; every method is optional.

    Callbacks are called in the process that called `recollect.run`, so all fleets are trained
    there, one after the other. The time spent in callbacks is not included in `train_seconds`.

    With callbacks, all runs are trained, even those in the result store. A callback may change the
    training, so results are not stored and their `code` differs from that of runs without the
    callback, unless it sets `only_observes = True`.

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
        """Called at the start of a task, before its first step."""

    def on_steps(self, point: Point) -> None:
        """Called after every `every` steps, counted from the start of the run."""

    def on_task_end(self, point: Point) -> None:
        """Called at the end of a task, after its evaluation."""

    def on_run_end(self, point: Point) -> None:
        """Called after the last task, before the results are returned."""


def check_callback(given: object) -> None:
    """Raise an `InputError` for a callback without known methods or with an invalid interval."""
    if not isinstance(given, Callback):
        raise InputError(f"a callback must be an instance of recollect.Callback, not {given!r}")
    kind = type(given)
    if not isinstance(given.every, int) or given.every < 1:
        raise InputError(
            f"`every` of {kind.__name__} must be a whole number of at least 1 step, "
            f"not {given.every!r}"
        )
    known = [name for name in vars(Callback) if name.startswith("on_")]
    for name in dir(given):
        if name.startswith("on_") and name not in known:
            near = nearest(name, known)
            raise InputError(
                f"{kind.__name__} defines {name}, which is never called: "
                + (f"did you mean {near}?" if near else f"known are {', '.join(known)}")
            )
    if all(getattr(kind, name) is getattr(Callback, name) for name in known):
        raise InputError(
            f"{kind.__name__} has no effect: define {', '.join(known[:-1])} or {known[-1]}"
        )
