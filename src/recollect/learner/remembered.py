"""What a learner says of its memory: a table of what is stored, and what `forget` did."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, final

from recollect.learner.emptied import stored_numbers
from recollect.learner.ids import Id
from recollect.learner.snapshot import Snapshot

__all__ = ["Forgotten", "Remembered", "table_of", "traces_in"]

SHOWN = 10


class Remembered(NamedTuple):
    """An example in memory: `id` and `source` as they were given to `observe`, its label and age.

    The label is the class, the value (a tuple of several) or the set of labels.
    The `age` is how many examples were learned since it arrived. What is not known is None: id and
    source that were not given, the age of what arrived before any was, and the label where a
    method stores none, as DER does.

    >>> from recollect import ER, MLP, Learner
    >>> learner = Learner(MLP(2, 1), ER(), memory=10)
    >>> _ = learner.observe([1.0, 0.0], "a", ids="ann", source="form")
    >>> learner.remembered()
    [Remembered(id='ann', label='a', age=0, source='form')]
    """

    id: Id | None
    label: Hashable
    age: int | None
    source: str | None


@final
@dataclass(frozen=True)
class Forgotten:
    """What `forget` removed, and what it cannot undo; as a text it says so in full.

    Attributes:
        rows: How many examples were removed from memory.
        unknown: The ids of which nothing was in memory (any more), nor waiting for a label.
        traces: What still depends on the examples.
        files: The checkpoints that were written before, which still contain what they contained.

    >>> from recollect import ER, MLP, Learner
    >>> learner = Learner(MLP(2, 1), ER(), memory=10)
    >>> _ = learner.observe([[1.0, 0.0], [0.0, 1.0]], ["a", "b"], ids=["ann", "bob"])
    >>> found = learner.forget(["ann", "nobody"])
    >>> found.rows, found.unknown
    (1, ['nobody'])
    """

    rows: int
    unknown: list[Id]
    traces: tuple[str, ...]
    files: tuple[Path, ...]

    def __str__(self) -> str:
        """Several lines of plain text."""
        lines = [f"{self.rows} example{'' if self.rows == 1 else 's'} removed from memory."]
        if self.unknown:
            more = f" and {len(self.unknown) - SHOWN} more" if len(self.unknown) > SHOWN else ""
            shown = ", ".join(map(repr, self.unknown[:SHOWN]))
            lines.append(f"Neither in memory nor waiting for a label: {shown}{more}.")
        lines.append(f"This cannot be undone in: {'; '.join(self.traces)}.")
        if self.files:
            lines.append(
                f"Files that were written before are as they were: "
                f"{', '.join(map(str, self.files))}. Save the learner and delete them."
            )
        else:
            lines.append("Files that were written before, if there are any, are as they were.")
        return "\n".join(lines)


def table_of(snapshot: Snapshot) -> list[Remembered]:
    """The examples in memory, the oldest first; those whose age is not known come before."""
    engine = snapshot.engine
    if engine is None:
        return []
    fleet, rows = engine.fleet, []
    numbers = stored_numbers(fleet)
    labels = _labels_of(snapshot, [*numbers])
    for slot in sorted(numbers, key=numbers.__getitem__):
        number = numbers[slot]
        name, source = snapshot.names.of(number)
        rows.append(
            Remembered(name, labels.get(slot), fleet.seen - number if number else None, source)
        )
    return rows


def _labels_of(snapshot: Snapshot, slots: list[int]) -> dict[int, Hashable]:
    """What was to be learned of the examples in these slots, where it is stored."""
    engine = snapshot.engine
    if engine is None or "y" not in engine.fleet.memory.tensors:
        return {}
    answers, y = snapshot.labels, engine.fleet.memory.tensors["y"][slots].cpu()
    if engine.target.weighted:
        y = y[:, 1:].squeeze(1) if engine.target.name == "class" else y[:, 1:]
    if engine.target.name == "class":
        found = [answers.known[number] for number in y.long().tolist()]
    elif engine.target.name == "labels":
        found = [frozenset(each) for each in answers.decode(y[:, : len(answers)])]
    else:
        values = answers.decode(y).tolist()
        found = [tuple(each) if isinstance(each, list) else each for each in values]
    return dict(zip(slots, found, strict=True))


def traces_in(snapshot: Snapshot) -> tuple[str, ...]:
    """What of a learner depends on examples that it has learned, besides the memory."""
    found = ["the weights, which have learned from it"]
    engine = snapshot.engine
    if engine is not None:
        fleet = engine.fleet
        state = [name for name in fleet.state if name not in fleet.by_slot]
        if state:
            shown = ", ".join(state[:SHOWN]) + (", ..." if len(state) > SHOWN else "")
            found.append(f"the state of {fleet.kind.title} ({shown})")
    return (*found, "counts, accuracies and the ranges by which outliers are told")
