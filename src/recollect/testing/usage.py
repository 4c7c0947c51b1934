"""Records what a method reads of its steps, and what it writes to memory."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import final

from torch import Tensor

from recollect.memory import Stored
from recollect.methods import Method, Step, hyperparameters
from recollect.methods.step import Outcome

__all__ = ["Usage", "with_usage"]


@final
@dataclass
class Usage:
    """The draws of a step, the numbers of those that were used, and what is written to memory.

    `on_arrival` says whether the policy stores examples as they arrive. A step that ended in an
    error has no outcome, and what it did not use says nothing.
    """

    draws: list[Stored]
    batch: int
    on_arrival: bool
    used: set[int] = field(default_factory=set)
    outcome: Outcome | None = None


def with_usage(methods: Sequence[Method]) -> tuple[list[Method], list[Usage]]:
    """The same methods, and a list that gets the usage of every step (of every run, in a loop)."""
    kind, usages = type(methods[0]), list[Usage]()

    def update(self: Method, step: Step) -> Tensor:
        copies = [Stored({n: t.clone() for n, t in draw.items()}) for draw in step.replays]
        usage = Usage(copies, step.y.shape[1], on_arrival=step.slots.shape[1] > 0)
        usages.append(usage)

        def draw() -> Stored:
            usage.used.add(step._drawn)
            return Step.draw(step)

        step.draw = draw  # type: ignore[method-assign]
        step.replays = [_RecordedDraw(d, n, usage.used) for n, d in enumerate(step.replays)]
        loss = kind.update(self, step)
        usage.outcome = deepcopy(step.outcome)
        return loss

    other = type(kind.__name__, (kind,), {"update": update})
    names = hyperparameters(kind)
    return [other(**{name: getattr(m, name) for name in names}) for m in methods], usages


class _RecordedDraw(Stored):
    """A draw that records that one of its fields is read."""

    def __init__(self, draw: Stored, number: int, used: set[int]) -> None:
        super().__init__(draw)
        self._record = used, number

    def __getitem__(self, name: str) -> Tensor:
        used, number = self._record
        used.add(number)
        return super().__getitem__(name)
