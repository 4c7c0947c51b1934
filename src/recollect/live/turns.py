"""Batches of one feed, or of two in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar, final

from recollect.feeds import Feed, Record
from recollect.feeds.record import Position

__all__ = ["Source", "turns"]

SILENCE = 0.5

Item = TypeVar("Item")


@final
class Source(Generic[Item]):
    """Batches of what `take` makes of the records of a feed, which leaves those out that are None.

    They are full; a smaller one comes when there was nothing for a moment, and at the end.
    `take` is told how many are in the batch already. As long as `held` says so, it is not read.
    """

    def __init__(
        self,
        feed: Feed,
        positions: Mapping[str, Position],
        size: int,
        take: Callable[[Record, int], Item | None],
        held: Callable[[], bool] = lambda: False,
    ) -> None:
        self.feed, self.held = feed, held
        self.ended = self.waits = False
        self.last = self._asked = time.monotonic()
        self._records = feed.records(positions)
        self._take, self._size = take, size
        self._batch: list[Item] = []

    def worth_asking(self) -> bool:
        """Whether to ask it while others have batches: asking takes a while if nothing comes."""
        return not self.waits or time.monotonic() - self._asked >= SILENCE

    def pull(self) -> list[Item]:
        """The next batch; empty if there is none yet, or no more."""
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

    def rest(self) -> list[Item]:
        """What there is of a batch."""
        batch, self._batch = self._batch, []
        return batch


def turns(
    sources: Sequence[Source[Item]],
    first: int,
    stopped: Callable[[], bool],
    enough: Callable[[], bool],
) -> Iterator[tuple[int, list[Item]]]:
    """A batch of every source in turn, from the `first` on, with its number.

    It ends with the sources, or when there was nothing for a moment and that is `enough`. Once it
    is `stopped`, only what comes through a pipe is taken: it would be lost, and files are read
    again.
    """

    def left(source: Source[Item]) -> bool:
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
