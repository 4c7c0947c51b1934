"""Options and output that several commands share."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.errors import InputError
from recollect.experiments import Summary
from recollect.experiments.results import check_writable
from recollect.train import Job, Result
from recollect.train.parallel import cores

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = [
    "SETTINGS",
    "add_common",
    "check_places",
    "compact_table",
    "console",
    "label",
    "notice",
    "seeds_label",
    "showing_progress",
    "workers",
]

WIDE = 120
REFRESH = 0.1

SETTINGS = {
    "class": "Class-IL",
    "task": "Task-IL",
    "domain": "Domain-IL",
    "general": "General CL",
}


def add_common(parser: argparse.ArgumentParser) -> None:
    """The options that every training command takes."""
    parser.add_argument("--seeds", default="10", metavar="SEEDS",
                        help="10: seeds 0 to 9 (default); 3-5: a range; 3,7: a list")  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="write one object per run")
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="where the data files are")
    parser.add_argument("--workers", type=int, metavar="N", help="processes (default: all cores)")


def workers(chosen: argparse.Namespace) -> int:
    """How many processes to use."""
    if chosen.workers is not None and chosen.workers < 1:
        raise InputError(f"the number of workers must be at least 1, not {chosen.workers}")
    return chosen.workers or cores()


def check_places(chosen: argparse.Namespace) -> None:
    """Refuse folders and files that cannot be used, before any work is done."""
    if chosen.json:
        check_writable(chosen.json)
    if chosen.data_dir and not chosen.data_dir.is_dir():
        raise InputError(f"there is no folder {str(chosen.data_dir)!r}: correct --data-dir")


def seeds_label(summaries: Sequence[Summary]) -> str:
    """How many seeds stand behind each row."""
    count = len(summaries[0].runs)
    return f"{count} seed{'s' if count > 1 else ''}"


def console() -> Console:
    """Where tables go; wide enough not to break them where there is no terminal."""
    from rich.console import Console

    class Screen(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    plain = Screen(highlight=False)
    return plain if plain.is_terminal else Screen(highlight=False, width=WIDE)


def compact_table() -> Table:
    """An empty table that fits a terminal of eighty columns."""
    from rich import box
    from rich.table import Table

    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)


def notice(text: str) -> None:
    """Tell the person something that is not the result."""
    print(f"recollect: {text}", file=sys.stderr)


@contextmanager
def showing_progress(jobs: Sequence[Job]) -> Iterator[Callable[[Job, int], None]]:
    """A bar over all steps of all runs; nothing where there is no terminal."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    total = sum(job.total_steps for job in jobs)
    bar = Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        auto_refresh=False,  # a thread of its own would be in the way of forking
        disable=not sys.stderr.isatty(),
    )
    with bar:
        line = bar.add_task("starting", total=total)
        shown = [0.0]

        def advance(job: Job, steps: int) -> None:
            bar.update(line, advance=steps, description=label(job))
            if time.monotonic() > shown[0] + REFRESH:
                shown[0] = time.monotonic()
                bar.refresh()

        yield advance


def label(job: Job | Result) -> str:
    """A job or a run in a few words."""
    if isinstance(job, Result):
        return f"{job.benchmark} {job.method}{f' {job.buffer}' if job.buffer else ''}"
    return f"{job.stream.name} {job.kind.name}{f' {job.buffer}' if job.buffer else ''}"
