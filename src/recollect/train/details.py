"""Optional outputs of a job: curves, confusion matrices, saved networks, callbacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from torch import Tensor

from recollect.errors import InputError, nearest
from recollect.memory import Clock

if TYPE_CHECKING:
    from recollect.streams.stream import Stream
    from recollect.train.fleet import Fleet
    from recollect.train.result import Result

CURVE_STEPS = 200
CURVE_EXAMPLES = 100


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
    callback, unless it sets `only_observes = True`. Even then, all runs are trained.

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


@final
@dataclass(frozen=True)
class Details:
    """The optional outputs of a job; only callbacks can change the training.

    Attributes:
        curves: The number of steps between two points of the curves; 0 for no curves.
        examples: The largest number of test examples per task for a point.
        confusion: Whether to compute confusion matrices at the end.
        networks: The folder for trained networks; None to not save them.
        callbacks: The callbacks to call during training.
    """

    curves: int = 0
    examples: int = CURVE_EXAMPLES
    confusion: bool = False
    networks: Path | None = None
    callbacks: tuple[Callback, ...] = ()

    @classmethod
    def of(
        cls,
        curves: int | bool = False,
        examples: int = CURVE_EXAMPLES,
        confusion: bool = False,
        networks: Path | str | None = None,
        callbacks: Sequence[Callback] | Callback = (),
    ) -> Details:
        """Validate the user's arguments; `curves=True` is the default interval."""
        every = CURVE_STEPS if curves is True else curves
        if not isinstance(every, int) or every < 0:
            raise InputError(f"curves must be a whole number of at least 1 step, not {curves!r}")
        if not isinstance(examples, int) or examples < 1:
            raise InputError(
                f"the number of test examples for curves must be at least 1, not {examples!r}"
            )
        given = (callbacks,) if isinstance(callbacks, Callback) else tuple(callbacks)
        for each in given:
            _check_callback(each)
        folder = None if networks is None else Path(networks).absolute()
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(
                    f"networks cannot be saved in {str(networks)!r}: {error.strerror or error}"
                ) from None
        return cls(int(every), examples, bool(confusion), folder, given)

    @property
    def changing(self) -> tuple[Callback, ...]:
        """The callbacks that may change the training."""
        return tuple(each for each in self.callbacks if not each.only_observes)

    @property
    def key(self) -> list[Any]:
        """Plain data that distinguishes jobs with different details; empty without any."""
        curves = [self.curves, self.examples] if self.curves else None
        found = [curves, self.confusion, str(self.networks or "")]
        return found if any(found) else []

    def lacking(self, result: Result) -> bool:
        """Whether a stored result lacks some of the requested outputs."""
        curves, file = result.curves, result.network_file
        asked = (self.curves, self.examples)
        if self.curves and (curves is None or (curves.every, curves.examples) != asked):
            return True
        if self.confusion and result.confusion is None:
            return True
        if self.networks is None:
            return False
        return file is None or Path(file).parent != self.networks or not Path(file).is_file()


def _check_callback(given: object) -> None:
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
