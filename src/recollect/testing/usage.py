"""Records what a method reads of its steps, and what it writes to memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

from torch import Tensor

from recollect.memory import Stored
from recollect.methods import Method, Step, hyperparameters

__all__ = ["Usage", "with_usage"]


@final
@dataclass
class Usage:
    """The draws of a step, which of them were used, and what was given to be written to memory.

    `given` has the values of `remember` and `rewrite` by call and field, with how many examples
    they are for. A step that ended in an error is not `complete`; what it left out says nothing.
    """

    draws: list[Stored]
    batch: int
    used: set[int] = field(default_factory=set)
    too_many: bool = False
    given: dict[tuple[str, str], tuple[Tensor, int]] = field(default_factory=dict)
    slots: Tensor | None = None
    complete: bool = False


def with_usage(methods: Sequence[Method]) -> tuple[list[Method], list[Usage]]:
    """The same methods, and a list that gets the usage of every step (of every run, in a loop)."""
    kind, usages = type(methods[0]), list[Usage]()

    def update(self: Method, step: Step) -> Tensor:
        recorded = _RecordedStep(step)
        usages.append(recorded.usage)
        loss = kind.update(self, recorded)
        recorded.usage.complete = True
        return loss

    other = type(kind.__name__, (kind,), {"update": update})
    names = hyperparameters(kind)
    return [other(**{name: getattr(m, name) for name in names}) for m in methods], usages


class _RecordedStep(Step):
    def __init__(self, step: Step) -> None:
        copies = [Stored({n: t.clone() for n, t in draw.items()}) for draw in step.replays]
        self.usage = Usage(copies, step.y.shape[1])
        draws = [_RecordedDraw(d, n, self.usage.used) for n, d in enumerate(step.replays)]
        super().__init__(
            step.x, step.y, step.model, draws, step.state, step.slots, step._key, step._augmentation
        )
        self.outcome = step.outcome

    def draw(self) -> Stored:
        self.usage.too_many |= self._drawn == len(self.replays)
        self.usage.used.add(self._drawn)
        return super().draw()

    def remember(self, **fields: Tensor) -> None:
        self.usage.given |= {
            ("remember", n): (t.detach(), self.usage.batch) for n, t in fields.items()
        }
        super().remember(**fields)

    def rewrite(self, draw: Stored, **fields: Tensor) -> None:
        size = next(iter(draw.values())).shape[1]
        self.usage.given |= {("rewrite", n): (t.detach(), size) for n, t in fields.items()}
        super().rewrite(draw, **fields)

    def store_at(self, slots: Tensor) -> None:
        self.usage.slots = slots.clone()
        super().store_at(slots)


_RecordedStep.__name__ = Step.__name__  # as an error message names it


class _RecordedDraw(Stored):
    """A draw that records that one of its fields is read."""

    def __init__(self, draw: Stored, number: int, used: set[int]) -> None:
        super().__init__(draw)
        self._record = used, number

    def __getitem__(self, name: str) -> Tensor:
        used, number = self._record
        used.add(number)
        return super().__getitem__(name)
