"""List, forget and resize the memory of a learner."""

from __future__ import annotations

import gc
from collections.abc import Collection, Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, final

from recollect.learner.contents.ids import Id
from recollect.learner.engine.adapting import resized
from recollect.learner.engine.emptied import stored_numbers
from recollect.learner.saving.durable import Durable
from recollect.learner.saving.snapshot import Snapshot
from recollect.learner.saving.versions import versions_in

SHOWN = 10


class Remembered(NamedTuple):
    """An example in memory: its id, label, age and source.

    `id` and `source` are those given to `observe`, and None if none was given. `label` is the
    class, the value (a tuple for several values) or the set of labels, and None for methods that
    store no labels, such as DER. `age` is the number of examples learned since this one, and None
    for an example from before ids were first given.

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
    """The result of `forget`: what was removed, and what cannot be undone; print it for a summary.

    Attributes:
        rows: The number of examples that were removed from memory.
        unknown: The ids that were neither in memory nor waiting for a label.
        traces: The parts of the learner that still depend on the examples.
        files: The checkpoints that were written before; they are unchanged.
        waiting: The number of removed predictions that waited for a label.

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
    waiting: int = 0

    def __str__(self) -> str:
        """Summarise the result in several lines."""
        waited = f", and {self.waiting} that waited for a label" if self.waiting else ""
        lines = [f"{self.rows} example{'' if self.rows == 1 else 's'} removed from memory{waited}."]
        if self.unknown:
            more = f" and {len(self.unknown) - SHOWN} more" if len(self.unknown) > SHOWN else ""
            shown = ", ".join(map(repr, self.unknown[:SHOWN]))
            lines.append(f"Neither in memory nor waiting for a label: {shown}{more}.")
        lines.append(f"This cannot be undone in: {'; '.join(self.traces)}.")
        if self.files:
            lines.append(
                f"These earlier files are unchanged: {', '.join(map(str, self.files))}. Call "
                f"checkpoint(), which replaces a file of the same step, and delete the others."
            )
        else:
            lines.append("Earlier files, if any, are unchanged.")
        return "\n".join(lines)


class Remembering(Durable):
    """A learner whose memory can be listed and resized, and from which examples can be removed."""

    def remembered(self) -> list[Remembered]:
        """List the examples in memory, oldest first: id, label, age and source of each.

        `pandas.DataFrame(learner.remembered())` makes a table of the list.

        >>> from recollect import ER, MLP, Learner
        >>> learner = Learner(MLP(2, 1), ER(), memory=10)
        >>> _ = learner.observe([[1.0, 0.0], [0.0, 1.0]], ["a", "b"], ids=["ann", "bob"])
        >>> [(row.id, row.label, row.age) for row in learner.remembered()]
        [('ann', 'a', 1), ('bob', 'b', 0)]
        """
        with self._lock:
            return _table_of(self._now)

    def _empty(self, wanted: Collection[Id]) -> tuple[set[Id], int, dict[Path, int | None]]:
        """Remove examples from memory; return the ids found, the number of rows, and older files.

        The inode of a file tells it from one that replaces it. This is atomic: if it is
        interrupted, nothing changes.
        """
        with self._lock:
            # A file that is being written still contains the examples: it is one of the older ones.
            self._checkpoints.wait()
            self._writing.wait()
            folder = self._checkpoints.folder
            older = [] if folder is None else [each.path for each in versions_in(folder)]
            files = {path: inode_of(path) for path in older}
            before = self._now
            if before.engine is None:
                return set(), 0, files
            engine, names = before.engine, before.names
            numbers = stored_numbers(engine.fleet)
            slots = [slot for slot, number in numbers.items() if names.of(number)[0] in wanted]
            found = {name for slot in slots if (name := names.of(numbers[slot])[0]) is not None}
            try:
                engine.empty(slots)
                engine.publish(before.labels)
                self._now = before._replace(names=names.without(wanted))
            finally:
                if self._now is before:
                    engine.undo()
            engine.settle()
        # A network that was replaced by one with more outputs is part of reference cycles.
        gc.collect()
        return found, len(slots), files

    def resize(self, memory: int | str) -> None:
        """Change the capacity of the memory: a number of examples, or a size such as "64 MB".

        A larger memory keeps all examples, and new ones fill it. A smaller memory keeps a random
        subset, which a class-balanced memory draws in equal shares per class. This is atomic: if it
        is interrupted, nothing changes.
        """
        self._check_open()
        with self._lock:
            before, settings = self._now, self._settings
            changed = settings.with_memory(memory)
            engine = before.engine and resized(before.engine, changed)
            try:
                if engine is not None:
                    engine.publish(before.labels)
                self._settings = changed
                self._now = before._replace(engine=engine)
            finally:
                if self._now is before:
                    self._settings = settings


def inode_of(path: Path) -> int | None:
    """Return the inode of a file; None if it does not exist."""
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def _table_of(snapshot: Snapshot) -> list[Remembered]:
    """List the examples in memory, oldest first; those of unknown age come before the others."""
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
    """Return the labels of the examples in these slots, if the method stores labels."""
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
    """List the parts of a learner, besides the memory, that depend on the examples it learned."""
    found = ["the weights, which have learned from the examples"]
    engine = snapshot.engine
    if engine is not None:
        fleet = engine.fleet
        state = [name for name in fleet.state if name not in fleet.by_slot]
        if state:
            shown = ", ".join(state[:SHOWN]) + (", ..." if len(state) > SHOWN else "")
            found.append(f"the state of {fleet.kind.title} ({shown})")
    return (*found, "the counts, the metrics and the ranges that are used to detect outliers")
