"""`recollect data`: list, fetch and verify data sets."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from recollect.cli.options import add_shared
from recollect.cli.screen import console, notice
from recollect.errors import DataError
from recollect.streams.data import CATALOGUE, Finding, entry, load, look


def configure(data: argparse.ArgumentParser) -> None:
    """Add `data list`, `data fetch` and `data verify`."""
    data.set_defaults(command=list_data)
    actions = data.add_subparsers(title="actions", metavar="ACTION")
    show = actions.add_parser("list", help="list the data sets and their location")
    show.set_defaults(command=list_data)
    fetch = actions.add_parser("fetch", help="download data sets into the cache")
    fetch.add_argument("names", nargs="+", metavar="NAME", help="a data set, such as mnist")
    fetch.set_defaults(command=fetch_data)
    verify = actions.add_parser("verify", help="verify the checksums of data set files")
    verify.add_argument(
        "names", nargs="*", metavar="NAME", help="a data set (default: all available ones)"
    )
    verify.set_defaults(command=verify_data)
    for action in (data, show, fetch, verify):
        add_shared(action, "--data-dir")


def list_data(chosen: argparse.Namespace) -> int:
    """List all data sets with their location, and whether their files are valid."""
    _show(CATALOGUE, chosen.data_dir)
    return 0


def fetch_data(chosen: argparse.Namespace) -> int:
    """Download data sets that are not available yet."""
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
    """Verify data sets; a corrupt one is an error, and so is a named one that is missing."""
    names = list(dict.fromkeys(chosen.names)) or list(CATALOGUE)
    for name in names:
        entry(name)
    problems = [
        f"{name} is not valid: {found.problem}"
        for name, found in _show(names, chosen.data_dir).items()
        if found.problem and (chosen.names or found.where != "not here")
    ]
    if problems:
        raise DataError("; ".join(problems))
    return 0


def _show(names: Iterable[str], folder: Path | None) -> dict[str, Finding]:
    """Print a table of data sets, and return the location and problem of each."""
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
