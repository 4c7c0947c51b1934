"""A fair lock: threads acquire it in the order in which they requested it."""

from __future__ import annotations

import os
from threading import Lock
from typing import final

from recollect.errors import InputError


@final
class FairLock:
    """A first-come, first-served lock, so that no waiting thread is starved.

    A `threading.Lock` alone is not enough: a thread that releases and acquires it in a loop can
    acquire it again before a waiting thread has woken up.
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
        """Create new locks in a forked process, where the threads that held the old ones are gone.

        Raises:
            InputError: The process was forked during a step, so the state may be inconsistent.
        """
        if self._lock.locked():
            raise InputError(
                f"this process was forked from process {self._pid} during a step of the learner, "
                f"so its state here may be inconsistent: load the learner from a file, or fork "
                f"before it learns"
            )
        self._pid, self._next, self._lock = os.getpid(), Lock(), Lock()
