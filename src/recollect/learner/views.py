"""What predictions read while a step changes the weights in place."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from threading import Condition, Lock
from typing import final

import torch
from torch import Tensor

from recollect.learner.labels import Labels
from recollect.memory import Clock
from recollect.methods import Method
from recollect.train import Fleet
from recollect.train.guard import Guard
from recollect.train.reader import Reader

__all__ = ["ROWS", "View", "Views"]

ROWS = 1000


@final
class View:
    """The state of a learner between two steps, with its labels, for predictions.

    The views of a learner are two places that hold such a state in turn; each counts the threads
    that read it.
    """

    def __init__(self, reader: Reader, labels: Labels, clock: Clock) -> None:
        self._reader = reader
        self.labels, self.clock = labels, clock
        self.readers = 0
        network = reader.model.network
        # A method's own `predict` may add hooks to the network, and weights that are not the
        # module's own are put there for a call: then it is not for two threads at a time.
        several = network.holds or network.strategy == "broadcast"
        several = several and not _has_own_predict(reader.method)
        self._turns: AbstractContextManager[object] = nullcontext() if several else Lock()

    @property
    def draws(self) -> bool:
        """Whether a prediction draws random numbers."""
        return self._reader.model.network.noisy

    def predict(self, x: Tensor) -> Tensor:
        """The scores `[n, outputs]` of a batch `[n, ...]`."""
        with self._turns:
            parts = [
                self._reader.predict(part.unsqueeze(0), self.clock)[0]
                for part in x.split(ROWS)  # type: ignore[no-untyped-call]
            ]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def copy(self) -> View:
        """A copy that no step waits for."""
        reader = self._reader
        with self._turns:
            model, state = copy.deepcopy((reader.model, reader.state))
        read = _has_own_predict(reader.method)
        memory = reader.memory.copy() if read else reader.memory
        reader = replace(reader, model=model, state=state, memory=memory)
        return View(reader, self.labels, self.clock)


@final
class Views:
    """Two places with the state of a fleet, so that predictions never wait for a step.

    Between two steps they read the fleet's own tensors (`live`). A step begins with a copy of
    these, by which it can be undone; while it changes the tensors, predictions read that copy.
    The step waits for predictions that began before it, and these for nothing.
    """

    def __init__(self, fleet: Fleet, guard: Guard, labels: Labels) -> None:
        self._fleet, self._guard = fleet, guard
        tensors = fleet.tensors()
        own_predict = _has_own_predict(fleet.kind)
        self._mirror = fleet.memory.copy() if own_predict else None
        self._overwritten = guard.log_rows() if own_predict else []
        read = (tensors, fleet.memory), (guard.copies(tensors), self._mirror or fleet.memory)
        self._live, self._copy = (View(fleet.reader(*each), labels, fleet.clock) for each in read)
        self._shown = self._live
        self._changed = Condition(Lock())
        self._copied = False

    @contextmanager
    def reading(self, rows: int) -> Iterator[View]:
        """The present state, to predict so many rows; it stays as it is meanwhile.

        What is predicted for many rows has a copy, so that no step waits for it.
        """
        with self._changed:
            view = self._shown
            view.readers += 1
        try:
            if rows <= ROWS:
                yield view
                return
            view_copy = view.copy()
        finally:
            with self._changed:
                view.readers -= 1
                if not view.readers:
                    self._changed.notify_all()
        yield view_copy

    @property
    def draws(self) -> bool:
        """Whether a prediction draws random numbers, from the generator that steps use too."""
        return self._live.draws

    def begin(self) -> None:
        """A step may follow: what was learned before cannot be undone any more."""
        self._copied = False

    def begin_step(self) -> None:
        """Copy the state, and have predictions read the copy."""
        self._update_copy()
        self._copied = True
        self._show(self._copy)
        self._wait_for(self._live)

    def settle(self) -> None:
        """Have the copy hold the present state: nothing is left of the one before."""
        self._update_copy()
        self._guard.forget()

    def _update_copy(self) -> None:
        self._wait_for(self._copy)
        self._guard.note()
        if self._mirror is not None:
            for rows, _ in self._overwritten:
                self._mirror.write(rows, self._fleet.memory.read(rows))
            self._overwritten.clear()
        self._copy.labels, self._copy.clock = self._live.labels, self._live.clock

    def end_step(self, labels: Labels) -> None:
        """Have predictions read what was learned, which has these labels."""
        self._live.labels, self._live.clock = labels, self._fleet.clock
        self._show(self._live)

    def undo_step(self) -> None:
        """Bring the state at `begin_step` back, if it came so far."""
        if self._copied:
            self._show(self._copy)
            self._wait_for(self._live)
            self._guard.undo()
            self._fleet.clock = self._copy.clock
            self.end_step(self._copy.labels)

    def _show(self, view: View) -> None:
        with self._changed:
            self._shown = view

    def _wait_for(self, view: View) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not view.readers)


def _has_own_predict(method: Method | type[Method]) -> bool:
    kind = method if isinstance(method, type) else type(method)
    return kind.predict is not Method.predict
