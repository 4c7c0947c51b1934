"""How a learner shows what is in its memory, forgets some of it, and changes its size."""

from __future__ import annotations

import gc
from collections.abc import Collection
from pathlib import Path

from recollect.learner.durable import Durable
from recollect.learner.emptied import stored_numbers
from recollect.learner.ids import Id
from recollect.learner.remembered import Remembered, table_of
from recollect.learner.resized import resized, with_memory
from recollect.learner.versions import versions_in

__all__ = ["Remembering"]


class Remembering(Durable):
    """A durable learner whose memory can be read, and from which examples can be removed."""

    def remembered(self) -> list[Remembered]:
        """What is in memory now, the oldest example first: id, label, age and source of each.

        `pandas.DataFrame(learner.remembered())` is a table of it.

        >>> from recollect import ER, MLP, Learner
        >>> learner = Learner(MLP(2, 1), ER(), memory=10)
        >>> _ = learner.observe([[1.0, 0.0], [0.0, 1.0]], ["a", "b"], ids=["ann", "bob"])
        >>> [(row.id, row.label, row.age) for row in learner.remembered()]
        [('ann', 'a', 1), ('bob', 'b', 0)]
        """
        with self._lock:
            return table_of(self._now)

    def _empty(self, wanted: Collection[Id]) -> tuple[set[Id], int, tuple[Path, ...]]:
        """Remove examples with these ids from memory: those found, how many rows, older files.

        Either all of it happens or, if it is interrupted, nothing.
        """
        with self._lock:
            # What was begun before is finished as it was.
            self._checkpoints.wait()
            self._writing.wait()
            folder = self._checkpoints.folder
            files = () if folder is None else tuple(each.path for each in versions_in(folder))
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
                self._now = before._replace(names=names.without(numbers[slot] for slot in slots))
            finally:
                if self._now is before:
                    engine.undo()
            engine.settle()
        # A network that was replaced by one with more outputs is in cycles of references.
        gc.collect()
        return found, len(slots), files

    def resize(self, memory: int | str) -> None:
        """Change how many examples the memory stores: a number, or a size such as "64 MB".

        In a larger memory all examples stay, and the next ones fill it. In a smaller one, those
        stay that a random choice gives, or for a class-balanced memory one from equal shares.
        Either all of it happens or, if it is interrupted, nothing.
        """
        self._check_open()
        with self._lock:
            before, settings = self._now, self._settings
            changed = with_memory(settings, memory)
            engine = before.engine and resized(before.engine, changed)
            try:
                if engine is not None:
                    engine.publish(before.labels)
                self._settings = changed
                self._now = before._replace(engine=engine)
            finally:
                if self._now is before:
                    self._settings = settings
