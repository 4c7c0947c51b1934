"""A method with somebody watching: which of the things that a step offers it makes use of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, SupportsIndex, final

import torch
from torch import Tensor

from recollect.memory import Remembered
from recollect.methods import Method, Step

__all__ = ["Note", "by_step", "watched"]


@final
@dataclass
class Note:
    """What a method was given in a step and what it made use of.

    A step that ended in an error is not `whole`, and what it did not use says nothing.
    """

    replays: list[Remembered]
    used: set[int] = field(default_factory=set)
    too_many: bool = False
    kept: set[str] = field(default_factory=set)
    whole: bool = False
    lucky: bool = False
    placed: bool = False


def watched(methods: Sequence[Method]) -> tuple[list[Method], list[Note]]:
    """The same methods, and a list that gets a note of every step (of every run, in a loop)."""
    kind, notes = type(methods[0]), list[Note]()

    def learn(self: Method, step: Step) -> Tensor:
        seen = _Watched(step)
        notes.append(seen.note)
        loss = kind.learn(self, seen)
        seen.note.whole = True
        step.kept.update(seen.kept)
        step.slots = seen.slots
        return loss

    other = type(kind.__name__, (kind,), {"learn": learn})
    names = kind.hyperparameters()
    return [other(**{name: getattr(m, name) for name in names}) for m in methods], notes


def by_step(notes: Sequence[Note], runs: int) -> list[list[Remembered]]:
    """The draws of every step, of all runs together, also where each run has a step of its own."""
    found, row = [], list[list[Remembered]]()
    for note in notes:
        if note.replays:
            row.append(note.replays)
        if row and sum(_runs(draws) for draws in row) == runs:
            found.append([_joined(parts) for parts in zip(*row, strict=True)])
            row = []
    return found


def _runs(draws: Sequence[Remembered]) -> int:
    return len(next(iter(draws[0].values())))


def _joined(parts: Sequence[Remembered]) -> Remembered:
    return Remembered({name: torch.cat([part[name] for part in parts]) for name in parts[0]})


class _Watched(Step):
    """A step that notes what is asked of it."""

    def __init__(self, step: Step) -> None:
        copies = [Remembered({n: t.clone() for n, t in draw.items()}) for draw in step.replays]
        self.note = Note(copies)
        super().__init__(
            step.x, step.y, step._descent, step.replays, step.own, step.slots, step.luck, step.plain
        )
        self.replays = _Draws(step.replays, self.note)

    def __getattribute__(self, name: str) -> Any:
        if name == "luck":
            super().__getattribute__("note").lucky = True
        return super().__getattribute__(name)

    def draw(self) -> Remembered:
        self.note.too_many |= self._drawn == len(self.replays)
        return super().draw()

    def remember(self, **fields: Tensor) -> None:
        self.note.kept |= set(fields)
        super().remember(**fields)

    def place(self, slots: Tensor) -> None:
        self.note.placed = True
        super().place(slots)


class _Draws(list[Remembered]):
    """Draws that note which of them are looked at."""

    def __init__(self, draws: Sequence[Remembered], note: Note) -> None:
        super().__init__(draws)
        self._note = note

    def __getitem__(self, place: SupportsIndex | slice) -> Any:
        looked_at = range(len(self))[place]
        self._note.used |= {looked_at} if isinstance(looked_at, int) else set(looked_at)
        return super().__getitem__(place)

    def __iter__(self) -> Iterator[Remembered]:
        self._note.used |= set(range(len(self)))
        return super().__iter__()
