"""Progress of training: a bar on a terminal, and lines in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, final

from recollect.cli.screen import notice
from recollect.experiments.estimate import in_words

if TYPE_CHECKING:
    from recollect.train import Job

REFRESH = 0.1
SECONDS = 60.0  # between two lines of a log

Advance = Callable[["Job", int], None]


@contextmanager
def showing_progress(jobs: Sequence[Job]) -> Iterator[Advance]:
    """Show the progress of all runs; call the yielded function with steps as they are taken."""
    total = sum(job.total_steps for job in jobs)
    if not sys.stderr.isatty():
        yield Lines(total)
        return
    with _bar(total) as advance:
        yield advance


@final
class Lines:
    """Print a line on standard error every minute, so that a log shows how far training is."""

    def __init__(self, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._total, self._clock = total, clock
        self._done = self._before = 0
        self._time = clock()
        self._begun = set[int]()

    def __call__(self, job: Job, steps: int) -> None:
        """Count some steps of a job."""
        self._done += steps
        if id(job) not in self._begun:  # its first steps may be those of an interrupted command
            self._begun.add(id(job))
            self._before += steps
        now = self._clock()
        took, new = now - self._time, self._done - self._before
        if took < SECONDS:
            return
        left = in_words(took * (self._total - self._done) / new) if new else "an unknown time"
        share = 100 * self._done / max(self._total, 1)
        notice(f"{share:.0f} % of all steps, {left} left ({named(job)})")
        self._before, self._time = self._done, now


@contextmanager
def _bar(total: int) -> Iterator[Advance]:
    from rich import progress
    from rich.console import Console

    bar = progress.Progress(
        progress.TextColumn("[bold]{task.description}"),
        progress.BarColumn(),
        progress.TextColumn("{task.percentage:>3.0f} %"),
        progress.TimeElapsedColumn(),
        progress.TextColumn("left"),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        auto_refresh=False,  # a refresh thread would interfere with forking
    )
    with bar:
        line = bar.add_task("starting", total=total)
        shown = 0.0

        def advance(job: Job, steps: int) -> None:
            nonlocal shown
            bar.update(line, advance=steps, description=named(job))
            if time.monotonic() > shown + REFRESH:
                shown = time.monotonic()
                bar.refresh()

        yield advance


def named(job: Job) -> str:
    """Describe a job in a few words."""
    return f"{job.stream.name} {job.kind.name}{f' {job.buffer}' if job.buffer else ''}"
