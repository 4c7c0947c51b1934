"""Stop a live stream on Ctrl-C or SIGTERM."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_at_signals(stop: Callable[[], None]) -> Iterator[list[int]]:
    """Call `stop` on the first Ctrl-C or SIGTERM; a second one raises `KeyboardInterrupt`.

    It yields a list to which the number of the first signal is added.

    >>> with stop_at_signals(lambda: print("saving")) as came:
    ...     signal.raise_signal(signal.SIGTERM)
    saving
    >>> came == [signal.SIGTERM]
    True
    """
    came: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if came:
            raise KeyboardInterrupt
        came.append(number)
        stop()

    before = {}
    # Only the main thread may set handlers. A signal that is ignored, as Ctrl-C in a background
    # process, stays ignored.
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, handle)
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
