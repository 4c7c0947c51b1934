"""`recollect report`: everything that was measured, as one page that opens from disk."""

from __future__ import annotations

import argparse
import webbrowser
from pathlib import Path

from recollect.cli.common import add_files
from recollect.cli.notices import notice
from recollect.errors import InputError
from recollect.experiments.files import Stored, read_json
from recollect.experiments.report import build, drawn_in, write
from recollect.experiments.store import Store
from recollect.files import check_writable

__all__ = ["configure"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--out", type=Path, default=Path("recollect-report.html"), metavar="FILE",
                        help="the page (default: recollect-report.html)")  # fmt: skip
    add_files(parser)
    parser.add_argument("--benchmark", nargs="+", metavar="NAME",
                        help="these benchmarks alone")  # fmt: skip
    parser.add_argument("--figures", type=Path, metavar="DIR",
                        help="data of figures that recollect figures --format json wrote "
                             "there")  # fmt: skip
    parser.add_argument("--open", action="store_true", help="open it in the browser")
    parser.set_defaults(command=command)


def command(chosen: argparse.Namespace) -> int:
    """Write the page and say where it is."""
    check_writable(chosen.out)
    drawn = drawn_in(chosen.figures) if chosen.figures else {}
    data = build(_wanted(_rows(chosen), chosen.benchmark), drawn)
    write(data, chosen.out)
    size = chosen.out.stat().st_size / 1e6
    print(f"{chosen.out}: {data['runs']} runs in {len(data['rows'])} configurations, {size:.1f} MB")
    if chosen.open:
        webbrowser.open(chosen.out.absolute().as_uri())
    return 0


def _rows(chosen: argparse.Namespace) -> list[Stored]:
    rows = [row for file in chosen.files or [] for row in read_json(file, notice)]
    if chosen.store or not chosen.files:
        store = Store(chosen.store)
        rows += store.rows()
        if not rows:
            raise InputError(
                f"there are no runs in the store {store.path}: train some with `recollect "
                f"reproduce`, or give files that --json wrote with --from"
            )
    if not rows:
        raise InputError("there are no runs in these files: give files that --json wrote")
    return rows


def _wanted(rows: list[Stored], names: list[str] | None) -> list[Stored]:
    found = [row for row in rows if names is None or row.result.benchmark in names]
    there = sorted({row.result.benchmark for row in rows})
    for name in names or []:
        if name not in there:
            raise InputError(f"there are no runs of {name!r}; there are some of {', '.join(there)}")
    return found
