"""Show the progress of a stream in one line, and its metrics in a table at the end."""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from recollect.cli.screen import compact_table, console, notice
from recollect.learner import Learner
from recollect.learner.contents.remembered import Forgotten
from recollect.live import LiveStream

REFRESH, NOW_AND_THEN, RECENT = 0.2, 10.0, 10.0
MOST_CLASSES, MOST_WARNINGS = 40, 5


@contextmanager
def showing(
    window: int, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[LiveStream], None]]:
    """Show a status line in a terminal; elsewhere, print what has changed every 10 seconds."""
    terminal = sys.stderr.isatty()
    every = REFRESH if terminal else NOW_AND_THEN
    last, before, rate = clock(), "", _Rate(clock())

    def report(live: LiveStream) -> None:
        nonlocal last, before
        now = clock()
        rate.count(live.new, now)
        if now < last + every:
            return
        last, changed = now, _line(live, "", window)
        if terminal or changed != before:
            draw(_line(live, f" · {rate.now:,.0f}/s", window))
        before = changed

    with ExitStack() as stack:
        draw = _live_line(stack) if terminal else notice
        yield report


class _Rate:
    """Examples per second during the last 10 seconds."""

    def __init__(self, now: float) -> None:
        self._counts: deque[tuple[float, int]] = deque([(now, 0)])
        self._last = (now, 0)

    def count(self, examples: int, now: float) -> None:
        self._last = now, examples
        if now >= self._counts[-1][0] + REFRESH:
            self._counts.append(self._last)
        while len(self._counts) > 1 and self._counts[1][0] <= now - RECENT:
            self._counts.popleft()

    @property
    def now(self) -> float:
        (start, before), (end, after) = self._counts[0], self._last
        return (after - before) / max(end - start, 1e-9)


@contextmanager
def showing_warnings() -> Iterator[None]:
    """Print the first warnings of the library to standard error, and at the end how many more."""
    handler, logger = _Warnings(logging.WARNING), logging.getLogger("recollect")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        if handler.count > MOST_WARNINGS:
            notice(f"... and {handler.count - MOST_WARNINGS} more warnings")


class _Warnings(logging.Handler):
    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1
        if self.count <= MOST_WARNINGS:
            notice(record.getMessage())


def _live_line(stack: ExitStack) -> Callable[[str], None]:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    # No auto-refresh: its thread would compete with learning.
    line = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
    stack.enter_context(line)
    return lambda text: line.update(Text(text, no_wrap=True, overflow="ellipsis"), refresh=True)


def print_table(learner: Learner, window: int, *, stderr: bool) -> None:
    """Print the prequential metrics: overall, recent and per class."""
    from rich.text import Text

    found = learner.metrics()
    screen = console(stderr)
    title = f"{found.seen:,} examples · {learner.method.title} · predicted before learning"
    screen.print(Text(title, style="bold"))
    if learner.target != "class":
        screen.print(Text(str(found)))
        return
    summary = (
        f"balanced accuracy {percent(found.balanced)} · macro F1 {percent(found.macro_f1)} · kappa "
        f"{number(found.kappa)}{_alarms(learner)}"
    )
    screen.print(Text(summary))
    table = compact_table("class", right=["accuracy"])
    table.add_row("all", percent(found.accuracy))
    table.add_row(f"the last {min(window, found.seen):,}", percent(found.recent))
    for label, share in list(found.per_class.items())[:MOST_CLASSES]:
        table.add_row(Text(printable(str(label))), percent(share))
    if len(found.per_class) > MOST_CLASSES:
        table.add_row(f"... and {len(found.per_class) - MOST_CLASSES} more", "")
    screen.print(table)


def print_forgotten(found: Forgotten) -> None:
    """Print what was removed from a saved state, and what was not."""
    *lines, _ = str(found).splitlines()  # the last one is about files that are deleted here
    print("\n".join(lines))
    print("Earlier checkpoints are deleted; the sources and the predictions are unchanged.")


def _line(live: LiveStream, rate: str, window: int) -> str:
    if live.learner is None or not live.count:
        return "waiting for the first example"
    found = live.learner.metrics()
    if live.learner.target != "class":
        return f"{found}{rate}"
    classes = len(found.per_class)
    late = f" · {live.late.waiting:,} wait for labels" if live.late is not None else ""
    return (
        f"{found.seen:,} examples{rate} · accuracy {percent(found.accuracy)}, last "
        f"{min(window, found.seen):,}: {percent(found.recent)}, balanced "
        f"{percent(found.balanced)}, kappa {number(found.kappa)} · {classes} "
        f"class{'es' if classes != 1 else ''}"
        f"{f' · {found.left_out:,} left out' if found.left_out else ''}"
        f"{_alarms(live.learner)}{late}"
    )


def _alarms(learner: Learner) -> str:
    if learner.drift is None:
        return ""
    count = learner.metrics().alarms
    last = f", the last at example {learner.alarms[-1].number + 1:,}" if count else ""
    return f" · {count} drift alarm{'s' if count != 1 else ''}{last}"


def printable(text: str) -> str:
    r"""Escape newlines and terminal control characters.

    >>> print(printable("été"), printable("a\nb"), printable("\x1b[31m"))
    été a\nb \x1b[31m
    """
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def number(value: float | None) -> str:
    """Format a number between -1 and 1; "-" for None.

    >>> number(0.5), number(None)
    ('0.500', '-')
    """
    return "-" if value is None else f"{value:.3f}"


def percent(share: float | None) -> str:
    """Format a share as a percentage; "-" for None.

    >>> percent(0.5), percent(None)
    ('50.00 %', '-')
    """
    return "-" if share is None else f"{100 * share:.2f} %"
