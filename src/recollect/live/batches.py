"""Collect the records of one feed, or of two feeds in turn, in batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import final

from recollect.feeds import Feed, Record
from recollect.feeds.record import Position
from recollect.live.rows import StreamRow

SILENCE = 0.5


@final
class Source:
    """Collect the records of a feed in batches.

    `take(record, count)` converts a record, given the number of items in the batch so far; records
    for which it returns None are left out. A batch is smaller than `size` only at the end, or when
    no data arrives for `SILENCE` seconds. The feed is not read while `held()` is True.
    """

    def __init__(
        self,
        feed: Feed,
        positions: Mapping[str, Position],
        size: int,
        take: Callable[[Record, int], StreamRow | None],
        held: Callable[[], bool] = lambda: False,
    ) -> None:
        self.feed, self.held = feed, held
        self.ended = self.waits = False
        self.last = self._asked = time.monotonic()
        self._records: Iterator[Record | None] = feed.records(positions)
        self._take, self._size = take, size
        self._batch: list[StreamRow] = []

    def worth_asking(self) -> bool:
        """Return whether to poll it while others have data: polling an idle source blocks."""
        return not self.waits or time.monotonic() - self._asked >= SILENCE

    def pull(self) -> list[StreamRow]:
        """Return the next batch; empty if there is none yet, or at the end."""
        for record in self._records:
            now = time.monotonic()
            if record is None:
                self.waits, self._asked = True, now
                return self.rest() if now - self.last >= SILENCE else []
            self.waits, self.last = False, now
            taken = self._take(record, len(self._batch))
            if taken is not None:
                self._batch.append(taken)
            if len(self._batch) == self._size:
                return self.rest()
        self.ended = True
        return self.rest()

    def begin(self) -> None:
        """Read up to the first record, which raises an error if a column does not exist."""
        for record in self._records:
            self._records = chain([record], self._records)
            return

    def rest(self) -> list[StreamRow]:
        """Return and clear the incomplete batch."""
        batch, self._batch = self._batch, []
        return batch


def batches_in_turn(
    sources: Sequence[Source],
    first: int,
    stopped: Callable[[], bool],
    enough: Callable[[], bool],
) -> Iterator[tuple[int, list[StreamRow]]]:
    """Yield the index of a source and its next batch, for every source in turn from `first`.

    It ends with the sources, or when no data arrives and `enough()` is True. Once `stopped()` is
    True, only standard input is read on: its data would be lost, but files can be read again.
    """

    def left(source: Source) -> bool:
        return not source.ended and not (stopped() and source.feed.lasting)

    busy = False
    while any(map(left, sources)):
        got = False
        for number, source in enumerate(sources):
            asked = number >= first and left(source) and not source.held()
            if asked and (not busy or source.worth_asking()) and (batch := source.pull()):
                got = True
                yield number, batch
        busy, first = got, 0
        if not got and any(map(left, sources)) and enough():
            break
    for number, source in enumerate(sources):
        batch = source.rest()
        if batch and not (stopped() and source.feed.lasting):
            yield number, batch
