"""A lock that threads get in the order in which they asked for it."""

from __future__ import annotations

from threading import Lock
from typing import final

__all__ = ["FairLock"]


@final
class FairLock:
    """A lock that a thread which releases and acquires it in a loop cannot keep from others.

    A `threading.Lock` alone is not enough: the thread that releases it can acquire it again before
    one that waits has woken up.
    """

    def __init__(self) -> None:
        self._next = Lock()
        self._lock = Lock()

    def __enter__(self) -> None:
        with self._next:
            self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()
