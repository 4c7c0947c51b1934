"""Predictions from other threads while a step changes the weights in place."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from threading import Condition, Lock
from typing import final

import torch
from torch import Tensor, nn

from recollect.core.first_pass import same_in_both_modes
from recollect.learner.targets.answers import Answers
from recollect.memory import Clock
from recollect.methods import Method
from recollect.train import Fleet
from recollect.train.guard import Guard, Rows
from recollect.train.reader import Reader

ROWS = 1000


@final
class View:
    """The state of a learner between two steps, with its labels, for predictions.

    A learner has two views, which hold the published state in turn. `readers` counts the threads
    that use a view.
    """

    def __init__(self, reader: Reader, labels: Answers, clock: Clock) -> None:
        self._reader = reader
        self.labels, self.clock = labels, clock
        self.readers = 0
        network = reader.model.network
        # An overridden `predict` may add hooks to the network, and with some strategies weights are
        # put into the module for each call: then only one thread at a time can predict.
        several = network.holds or network.strategy == "broadcast"
        several = several and not _has_own_predict(reader.method)
        self._turns: AbstractContextManager[object] = nullcontext() if several else Lock()

    @property
    def draws(self) -> bool:
        """Whether predictions draw random numbers."""
        return self._reader.model.network.noisy

    def predict(self, x: Tensor) -> Tensor:
        """Compute the logits `[n, outputs]` of a batch `[n, ...]`."""
        with self._turns:
            return in_parts(lambda part: self._reader.predict(part, self.clock), x)

    def copy(self) -> View:
        """Return a copy that steps do not have to wait for."""
        reader = self._reader
        with self._turns:
            model, state = copy.deepcopy((reader.model, reader.state))
        read = _has_own_predict(reader.method)
        memory = reader.memory.copy() if read else reader.memory
        reader = replace(reader, model=model, state=state, memory=memory)
        return View(reader, self.labels, self.clock)


@final
class Views:
    """Double-buffered state of a fleet, so that predictions never wait for a step.

    Between two steps, predictions read the fleet's own tensors. A step begins by copying them, so
    that it can be undone; while it changes the tensors, predictions read the copy. A step waits for
    the predictions that began before it.
    """

    def __init__(self, fleet: Fleet, guard: Guard, labels: Answers) -> None:
        self._fleet, self._guard = fleet, guard
        tensors = fleet.tensors()
        own_predict = _has_own_predict(fleet.kind)
        self._mirror = fleet.memory.copy() if own_predict else None
        self._overwritten: list[Rows] = []
        if own_predict:
            guard.log_rows(self._overwritten)
        read = (tensors, fleet.memory), (guard.copies(tensors), self._mirror or fleet.memory)
        self._live, self._copy = (View(fleet.reader(*each), labels, fleet.clock) for each in read)
        self._shown = self._live
        self._changed = Condition(Lock())
        self._copied = False

    @contextmanager
    def reading(self, rows: int) -> Iterator[View]:
        """Return the current state, as a context in which it does not change.

        For many rows this is a copy, so that no step has to wait for the prediction.
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
        """Whether predictions draw random numbers, from the generator that steps also use."""
        return self._live.draws

    def begin(self) -> None:
        """Prepare for a step; the previous one can no longer be undone."""
        self._copied = False

    def begin_step(self) -> None:
        """Copy the state, and direct predictions to the copy."""
        self._update_copy()
        self._copied = True
        self._show(self._copy)
        self._wait_for(self._live)
        if self._fleet.network.first_pass is not None:
            self._fleet.network.first_pass.begin()

    def before_step(self, x: Tensor) -> Tensor:
        """Compute the logits `[n, outputs]` of a batch with the state before the last step."""
        first = self._fleet.network.first_pass
        found = None if first is None else first.outputs(x)
        return self._copy.predict(x) if found is None else found

    def settle(self) -> None:
        """Update the copy to the current state, so that nothing is left of the previous one."""
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

    def end_step(self, labels: Answers) -> None:
        """Direct predictions to the state after the step, with these labels."""
        self._live.labels, self._live.clock = labels, self._fleet.clock
        self._show(self._live)

    def undo_step(self) -> None:
        """Restore the state at `begin_step`, if the step got that far."""
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
        """Wait for the readers of a view that is not shown, so that no new ones come."""
        if not view.readers:
            return
        with self._changed:
            self._changed.wait_for(lambda: not view.readers)


def in_parts(predict: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Return the scores `[n, C]` of a batch `[n, ...]`, at most `ROWS` examples at a time."""
    if len(x) <= ROWS:
        return predict(x.unsqueeze(0))[0]
    parts = x.split(ROWS)  # type: ignore[no-untyped-call]
    return torch.cat([predict(part.unsqueeze(0))[0] for part in parts])


def predicts_by_first_pass(fleet: Fleet, module: nn.Module) -> bool:
    """Whether the first forward pass of a step also gives the predictions for its batch.

    Not for regression: a pass over more rows rounds differently, which the metrics would show. Nor
    if steps are recorded: a replayed graph does not run the network's Python code.
    """
    plain = not fleet.recorded and fleet.images is None and not _has_own_predict(fleet.kind)
    return plain and fleet.target.name == "class" and same_in_both_modes(module)


def _has_own_predict(method: Method | type[Method]) -> bool:
    kind = method if isinstance(method, type) else type(method)
    return kind.predict is not Method.predict
