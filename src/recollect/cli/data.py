"""The command `recollect data`: which data sets there are, where they are, and fetching them."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

from recollect.cli.common import console
from recollect.errors import DataError

if TYPE_CHECKING:
    from recollect.streams.data import Finding

__all__ = ["configure", "fetch_data", "list_data", "verify_data"]


def configure(data: argparse.ArgumentParser) -> None:
    """Add `data list`, `data fetch` and `data verify`."""
    data.set_defaults(command=list_data)
    actions = data.add_subparsers(title="actions", metavar="ACTION")

    show = actions.add_parser("list", help="show the data sets and where they are")
    show.set_defaults(command=list_data)

    fetch = actions.add_parser("fetch", help="fetch data sets into the cache")
    fetch.add_argument("names", nargs="+", metavar="NAME", help="a data set, such as mnist")
    fetch.set_defaults(command=fetch_data)

    verify = actions.add_parser("verify", help="check the files of data sets by their checksums")
    verify.add_argument(
        "names", nargs="*", metavar="NAME", help="a data set; by default, all that are here"
    )
    verify.set_defaults(command=verify_data)

    for action in (data, show, fetch, verify):
        action.add_argument(
            "--data-dir",
            metavar="DIR",
            help="a folder to look in before the cache (default: $RECOLLECT_DATA)",
        )


def list_data(arguments: argparse.Namespace) -> int:
    """Show every data set, where it is and whether its files are the right ones."""
    from recollect.streams.data import CATALOGUE

    _show(CATALOGUE, arguments.data_dir)
    return 0


def fetch_data(arguments: argparse.Namespace) -> int:
    """Fetch data sets, unless they are already here."""
    from rich.console import Console

    from recollect.streams.data import entry, load

    progress = Console(stderr=True, soft_wrap=True, markup=False, highlight=False)
    output = Console(soft_wrap=True, markup=False, highlight=False)
    for name in arguments.names:
        entry(name)
    for name in dict.fromkeys(arguments.names):
        data = load(name, arguments.data_dir, report=progress.print)
        output.print(
            f"{name} is ready: {len(data.train_y):,} training and {len(data.test_y):,} test "
            f"examples of {data.classes} classes"
        )
    return 0


def verify_data(arguments: argparse.Namespace) -> int:
    """Check data sets; a corrupt one is an error, and so is one that is named and missing."""
    from recollect.streams.data import CATALOGUE, entry

    names = list(dict.fromkeys(arguments.names)) or list(CATALOGUE)
    for name in names:
        entry(name)
    problems = [
        f"{name} is not in order: {found.problem}"
        for name, found in _show(names, arguments.data_dir).items()
        if found.problem and (arguments.names or found.where != "not here")
    ]
    if problems:
        raise DataError("; ".join(problems))
    return 0


def _show(names: Iterable[str], folder: str | None) -> dict[str, Finding]:
    """Print a table of data sets, and return where each is and what is wrong with it there."""
    from rich.filesize import decimal
    from rich.table import Table

    from recollect.streams.data import entry, look

    table = Table("name", "examples", "image", "classes", "size", "where", "check")
    findings = {}
    for name in names:
        known, found = entry(name), look(name, folder)
        findings[name] = found
        table.add_row(
            name,
            f"{known.train:,} + {known.test:,} test",
            "×".join(map(str, known.image)),
            str(known.classes),
            decimal(known.size),
            found.where,
            "ok" if not found.problem else "-" if found.where == "not here" else "wrong",
        )
    console().print(table)
    return findings
