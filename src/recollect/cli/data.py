"""The command `recollect data`: which data sets there are, where they are, and fetching them."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from recollect.cli.common import add_data_dir
from recollect.cli.screen import console, notice
from recollect.errors import DataError
from recollect.streams.data import CATALOGUE, Finding, entry, load, look


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
        add_data_dir(action)


def list_data(chosen: argparse.Namespace) -> int:
    """Show every data set, where it is and whether its files are the right ones."""
    _show(CATALOGUE, chosen.data_dir)
    return 0


def fetch_data(chosen: argparse.Namespace) -> int:
    """Fetch data sets, unless they are already here."""
    for name in chosen.names:
        entry(name)
    for name in dict.fromkeys(chosen.names):
        data = load(name, chosen.data_dir, report=notice)
        print(
            f"{name} is ready: {len(data.train_y):,} training and {len(data.test_y):,} test "
            f"examples of {data.classes} classes"
        )
    return 0


def verify_data(chosen: argparse.Namespace) -> int:
    """Check data sets; a corrupt one is an error, and so is one that is named and missing."""
    names = list(dict.fromkeys(chosen.names)) or list(CATALOGUE)
    for name in names:
        entry(name)
    problems = [
        f"{name} is not in order: {found.problem}"
        for name, found in _show(names, chosen.data_dir).items()
        if found.problem and (chosen.names or found.where != "not here")
    ]
    if problems:
        raise DataError("; ".join(problems))
    return 0


def _show(names: Iterable[str], folder: Path | None) -> dict[str, Finding]:
    """Print a table of data sets, and return where each is and what is wrong with it there."""
    from rich.filesize import decimal
    from rich.table import Table

    table = Table("name", "examples", "image", "classes", "size", "where", "check")
    findings = {name: look(name, folder) for name in names}
    for name, found in findings.items():
        known = entry(name)
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
