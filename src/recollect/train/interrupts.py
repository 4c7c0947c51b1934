"""Handle Ctrl+C and SIGTERM during training: save the state, then end the process."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import final

from recollect.errors import Terminated, TimeUp
from recollect.train.checkpoint import Checkpoints

STOPPING = b"recollect: saving the state, then stopping (a second signal ends it at once)\n"
SLICE_SECONDS = 0.5

_came: list[int] = []
_parent: int | None = None


def stop_asked() -> bool:
    """Whether training should save and stop: after a signal, or if the worker's parent ended."""
    return bool(_came) or (_parent is not None and os.getppid() != _parent)


@contextmanager
def noting_signals(saves: bool) -> Iterator[list[int]]:
    """Record Ctrl+C and SIGTERM within this context, so that training saves and stops.

    Yields the list of received signals. The second signal raises `KeyboardInterrupt` at once, as
    does the first if nothing `saves`. Has no effect outside the main thread, which is the only one
    that may set handlers.
    """
    owner = os.getpid()

    def note(number: int, frame: FrameType | None) -> None:
        _came.append(number)
        if os.getpid() != owner:
            return  # a newly forked process that has not called `in_worker` yet
        if len(_came) > 1 or not saves:
            raise KeyboardInterrupt
        with suppress(OSError):
            os.write(2, STOPPING)

    _came.clear()
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                before[number] = signal.signal(number, note)
    came: list[int] = []
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        came += _came
        _came.clear()


def in_worker() -> None:
    """Make SIGTERM, or the end of the parent, request this process to stop; ignore Ctrl+C.

    Ctrl+C reaches every process of a terminal; the parent handles it and terminates its workers.
    """
    global _parent
    parent = multiprocessing.parent_process()
    _parent = parent.pid if parent else None
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: _came.append(number))


def ending(number: int, text: str) -> BaseException:
    """The exception after a signal: `KeyboardInterrupt`, or `Terminated` for SIGTERM.

    An uncaught `Terminated` prints nothing, so the text is printed here.
    """
    if number == signal.SIGINT:
        return KeyboardInterrupt(f"interrupted {text}")
    print(f"recollect: terminated {text}", file=sys.stderr)
    return Terminated(f"terminated {text}")


def stopped_words(
    done: int, total: int, stored: int, checkpoints: Checkpoints | None, *why: BaseException
) -> str:
    """Describe where a signal stopped the training, what is saved, and how to continue."""
    again = "the same command starts again from the beginning"
    when = f"after {done:,} of {total:,} steps of all runs"
    if checkpoints and why and isinstance(why[0], KeyboardInterrupt):
        if stored or checkpoints.any():
            again = "the same command continues from what was saved before"
        return f"and ended at once: {again}"
    if why and not isinstance(why[0], TimeUp | KeyboardInterrupt):
        return f"{when}, and they are not saved: {why[0]}"
    if not done:
        return f"before the first step: there was nothing to save, and {again}"
    if checkpoints:
        return f"{when}: they are saved, and the same command continues from there"
    if stored:
        return f"{when}: {stored} finished runs are stored, and the same command trains the others"
    return f"{when}: nothing is saved, because no folder was given as `checkpoint`"


@final
class Slices:
    """Chooses how many `batches` to train between checks of `stop_asked`: about a second."""

    def __init__(self) -> None:
        self.batches = 1

    def took(self, seconds: float, batches: int) -> None:
        """Choose the size of the next slice from the duration of the last one."""
        if seconds > 4 * SLICE_SECONDS:
            self.batches = max(self.batches // 2, 1)
        elif seconds < SLICE_SECONDS and batches == self.batches:
            self.batches *= 2
