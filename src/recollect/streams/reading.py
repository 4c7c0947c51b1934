"""Progress messages on standard error while examples are read."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import TypeVar

T = TypeVar("T")
PATIENCE, EVERY = 2.0, 0.5


def with_progress(
    items: Iterable[T], total: Sized | int, what: str, doing: str = "reading", each: int = 1
) -> Iterator[T]:
    """Iterate over items, and print progress if it takes longer than two seconds.

    Each item counts as `each` examples.
    """
    count = total if isinstance(total, int) else len(total)
    began = last = time.monotonic()
    shown = False
    for number, item in enumerate(items):
        now = time.monotonic()
        if now - began > PATIENCE and now - last > EVERY:
            done = f"\r{doing} {what}: {number * each:,} of {count:,}"
            print(done, end="", file=sys.stderr, flush=True)
            last, shown = now, True
        yield item
    if shown:
        print(f"\r{doing} {what}: {count:,} of {count:,}", file=sys.stderr, flush=True)
