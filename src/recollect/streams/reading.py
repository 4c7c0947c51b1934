"""Progress on standard error while many examples are read."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import TypeVar

__all__ = ["with_progress"]

T = TypeVar("T")
PATIENCE, EVERY = 2.0, 0.5


def with_progress(items: Iterable[T], total: Sized | int, what: str) -> Iterator[T]:
    """The items; if they take longer than two seconds, how many there were is printed."""
    count = total if isinstance(total, int) else len(total)
    began = last = time.monotonic()
    shown = False
    for number, item in enumerate(items):
        now = time.monotonic()
        if now - began > PATIENCE and now - last > EVERY:
            print(f"\rreading {what}: {number:,} of {count:,}", end="", file=sys.stderr, flush=True)
            last, shown = now, True
        yield item
    if shown:
        print(f"\rreading {what}: {count:,} of {count:,}", file=sys.stderr, flush=True)
