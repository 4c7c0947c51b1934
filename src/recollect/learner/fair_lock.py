"""A lock that threads get in the order in which they asked for it."""

from __future__ import annotations

import os
from threading import Lock
from typing import final

from recollect.errors import InputError

__all__ = ["FairLock"]


@final
class FairLock:
    """A lock that a thread which releases and acquires it in a loop cannot keep from others.

    A `threading.Lock` alone is not enough: the thread that releases it can acquire it again before
    one that waits has woken up.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._next = Lock()
        self._lock = Lock()

    def __enter__(self) -> None:
        if os.getpid() != self._pid:
            self._start_after_fork()
        with self._next:
            self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def _start_after_fork(self) -> None:
        """Begin anew in a process that was forked; threads that hold the locks are not there."""
        if self._lock.locked():
            raise InputError(
                f"this process was forked from process {self._pid} while the learner was at work "
                f"there, so that its state is not whole here: load it from a file, or fork before"
            )
        self._pid, self._next, self._lock = os.getpid(), Lock(), Lock()
