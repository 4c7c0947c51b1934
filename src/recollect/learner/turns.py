"""Who may use a learner's network now."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import final

__all__ = ["Turns"]


@final
class Turns:
    """One at a time, and whoever waits comes next: a loop that learns cannot keep others out.

    A lock alone is not enough, for a thread that frees it and takes it again at once is faster
    than one that has to wake up first.
    """

    def __init__(self) -> None:
        self._door = Lock()
        self._room = Lock()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Wait for a turn, and have it meanwhile."""
        with self._door:
            self._room.acquire()
        try:
            yield
        finally:
            self._room.release()
