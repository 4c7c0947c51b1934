"""Stopping a live stream at Ctrl-C or SIGTERM."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["stop_at_signals"]


@contextmanager
def stop_at_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at the first Ctrl-C or SIGTERM; the second raises `KeyboardInterrupt` at once.

    >>> with stop_at_signals(lambda: print("saving")):
    ...     signal.raise_signal(signal.SIGTERM)
    saving
    """
    asked = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        stop()

    before = {}
    # Only the main thread may set handlers. A process in the background may have to ignore Ctrl-C.
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
