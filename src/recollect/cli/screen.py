"""Messages, tables and progress bars in the terminal; `rich` is imported on first use."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from recollect.train import Job

WIDE = 10_000
REFRESH = 0.1


def notice(text: str) -> None:
    """Print a message on standard error."""
    print(f"recollect: {text}", file=sys.stderr)


def console(stderr: bool = False) -> Console:
    """Return a console for tables; without a terminal, lines are not wrapped."""
    from rich.console import Console

    class Screen(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    plain = Screen(highlight=False, stderr=stderr)
    return plain if plain.is_terminal else Screen(highlight=False, stderr=stderr, width=WIDE)


def compact_table(*left: str, right: Iterable[str] = ()) -> Table:
    """Return a table without borders, with left-aligned and right-aligned columns."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    for name in left:
        table.add_column(name)
    for name in right:
        table.add_column(name, justify="right")
    return table


def add_groups(table: Table, rows: Iterable[tuple[str, Sequence[str]]]) -> None:
    """Add rows with a separator line between groups; each row comes with its group's name."""
    previous: str | None = None
    for group, cells in rows:
        if previous not in (None, group):
            table.add_section()
        table.add_row(*cells)
        previous = group


@contextmanager
def showing_progress(jobs: Sequence[Job]) -> Iterator[Callable[[Job, int], None]]:
    """Show a progress bar over all steps of all runs, if there is a terminal."""
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
        disable=not sys.stderr.isatty(),
    )
    with bar:
        line = bar.add_task("starting", total=sum(job.total_steps for job in jobs))
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
