"""How a stream goes, in one line while it runs, and in a table at its end."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self, final

from recollect.cli.common import compact_table, console, notice
from recollect.learner import Learner

if TYPE_CHECKING:
    from rich.live import Live

    from recollect.cli.stream_plan import Plan

__all__ = ["Screen", "print_table"]

REFRESH, NOW_AND_THEN = 0.2, 10.0
MOST_CLASSES = 40


@final
class Screen:
    """A line that is kept up to date in a terminal; elsewhere a plain line now and then."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._live: Live | None = None
        self._every = REFRESH if sys.stderr.isatty() else NOW_AND_THEN
        self._begun = self._last = time.monotonic()
        self._seen = 0

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            # A thread of its own would take turns with the steps.
            self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        if self._live is not None:
            self._live.stop()

    def show(self, learner: Learner | None, examples: int) -> None:
        """Say where the stream is, if it is time to; `examples` have come since the last call."""
        self._seen += examples
        now = time.monotonic()
        if now < self._last + self._every:
            return
        self._last = now
        line = self._line(learner, now)
        if self._live is None:
            notice(line)
        else:
            from rich.text import Text

            self._live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)

    def _line(self, learner: Learner | None, now: float) -> str:
        if learner is None:
            return "waiting for the first example"
        told = learner.metrics()
        rate = self._seen / max(now - self._begun, 1e-9)
        count = len(told.per_class)
        return (
            f"{told.seen:,} examples · {rate:,.0f}/s · accuracy {percent(told.accuracy)}, last "
            f"{min(self._window, told.seen):,}: {percent(told.recent)} · {count} "
            f"class{'es' if count != 1 else ''}"
        )


def print_table(learner: Learner, plan: Plan, *, stderr: bool) -> None:
    """Print the accuracy of predictions made before learning: overall, recent, per class."""
    from rich.text import Text

    told = learner.metrics()
    screen = console(stderr)
    title = f"{told.seen:,} examples · {plan.method.title} · predicted before learning"
    screen.print(Text(title, style="bold"))
    table = compact_table()
    table.add_column("class")
    table.add_column("accuracy", justify="right")
    table.add_row("all", percent(told.accuracy))
    table.add_row(f"the last {min(plan.window, told.seen):,}", percent(told.recent))
    for label, share in list(told.per_class.items())[:MOST_CLASSES]:
        table.add_row(Text(str(label)), percent(share))
    if len(told.per_class) > MOST_CLASSES:
        table.add_row(f"... and {len(told.per_class) - MOST_CLASSES} more", "")
    screen.print(table)


def percent(share: float | None) -> str:
    """A share as a person reads it.

    >>> percent(0.5), percent(None)
    ('50.00 %', '-')
    """
    return "-" if share is None else f"{100 * share:.2f} %"
