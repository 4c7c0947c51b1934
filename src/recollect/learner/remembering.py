"""How a learner shows what is in its memory, forgets some of it, and changes its size."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection
from typing import Any

from torch import nn

from recollect.learner.durable import Durable
from recollect.learner.emptied import stored_numbers
from recollect.learner.ids import Id, ids_in
from recollect.learner.labels import Labels
from recollect.learner.remembered import Forgotten, Remembered, table_of, traces_in
from recollect.learner.resized import resized, with_memory
from recollect.learner.settings import Settings
from recollect.learner.versions import versions_in

__all__ = ["Remembering"]

Forget = Callable[[Collection[Id]], Collection[Id]]


class Remembering(Durable):
    """A durable learner whose memory can be read, and from which examples can be removed."""

    def __init__(self, module: nn.Module, settings: Settings, labels: Labels, window: int) -> None:
        super().__init__(module, settings, labels, window)
        # Whatever else holds examples by id adds a function here: it removes those with some ids,
        # and returns the ids of which it had any. It is called while the learner is locked.
        self._also_forget: list[Forget] = []

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

    def forget(self, ids: Any) -> Forgotten:
        """Remove all examples with this id, or with these ids, from memory.

        No tensor of the learner and no file that is written later has their bytes. They are never
        replayed again, and their slots are the first that are filled. What is returned says what
        cannot be undone: the weights have learned from them, and earlier files are as they were.
        Either all of it happens or, if it is interrupted, nothing.
        """
        wanted = ids_in(ids)
        with self._lock:
            # What was begun before is finished as it was.
            self._checkpoints.wait()
            self._writing.wait()
            before = self._now
            found, rows = set[Id](), 0
            if before.engine is not None:
                engine, names, asked = before.engine, before.names, set(wanted)
                numbers = stored_numbers(engine.fleet)
                slots = [slot for slot, number in numbers.items() if names.of(number)[0] in asked]
                found = {name for slot in slots if (name := names.of(numbers[slot])[0]) is not None}
                rows = len(slots)
                gone = [numbers[slot] for slot in slots]
                try:
                    engine.empty(slots)
                    engine.publish(before.labels)
                    self._now = before._replace(names=names.without(gone))
                finally:
                    if self._now is before:
                        engine.undo()
                engine.settle()
            for also in self._also_forget:
                found |= set(also(wanted))
            folder = self._checkpoints.folder
            files = () if folder is None else tuple(each.path for each in versions_in(folder))
            unknown = [each for each in wanted if each not in found]
            result = Forgotten(rows, unknown, traces_in(self._now), files)
        # A network that was replaced by one with more outputs is in cycles of references.
        gc.collect()
        return result

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
