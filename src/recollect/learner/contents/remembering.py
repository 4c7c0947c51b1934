"""List, forget and resize the memory of a learner."""

from __future__ import annotations

import gc
from collections.abc import Collection
from pathlib import Path

from recollect.learner.contents.ids import Id
from recollect.learner.contents.remembered import Remembered, table_of
from recollect.learner.engine.adapting import resized
from recollect.learner.engine.emptied import stored_numbers
from recollect.learner.saving.durable import Durable
from recollect.learner.saving.versions import versions_in

__all__ = ["Remembering", "inode_of"]


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
            return table_of(self._now)

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
