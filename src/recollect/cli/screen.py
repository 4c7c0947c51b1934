"""Messages and tables in the terminal; `rich` is imported on first use."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


WIDE = 10_000


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
