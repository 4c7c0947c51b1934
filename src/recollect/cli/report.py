"""`recollect report`: write all results to a self-contained HTML page."""

from __future__ import annotations

import argparse
import gc
import webbrowser
from pathlib import Path

from recollect.cli.options import add_shared
from recollect.cli.screen import notice
from recollect.errors import InputError
from recollect.experiments.files import read_json
from recollect.experiments.report import build, drawn_in, render
from recollect.experiments.store import Store
from recollect.files import check_new, write_text
from recollect.train import Result


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--out", type=Path, default=Path("recollect-report.html"), metavar="FILE",
                        help="output file (default: recollect-report.html)")  # fmt: skip
    add_shared(parser, "--force", "--from", "--store")
    parser.add_argument("--benchmark", nargs="+", metavar="NAME",
                        help="include only these benchmarks")  # fmt: skip
    parser.add_argument("--figures", type=Path, metavar="DIR",
                        help="folder of figure data that recollect figures --format json wrote "
                             "there")  # fmt: skip
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    parser.set_defaults(command=command)


def command(chosen: argparse.Namespace) -> int:
    """Write the page and print its path."""
    check_new(chosen.out, chosen.force or _is_report(chosen.out), "--force")
    drawn = drawn_in(chosen.figures) if chosen.figures else {}
    runs = stored_runs(chosen)
    if not runs:
        raise InputError(
            "there are no runs in these files: give files that --json wrote"
            if chosen.files and not chosen.store
            else f"there are no runs in the store {Store(chosen.store).path}: train some with "
            f"`recollect reproduce`, or give files that --json wrote with --from"
        )
    # Drawing creates many short-lived objects: garbage collection would take much of the time.
    gc.disable()
    try:
        data = build(_wanted(runs, chosen.benchmark), drawn)
    finally:
        gc.enable()
    write_text(chosen.out, render(data))
    size = chosen.out.stat().st_size / 1e6
    print(f"{chosen.out}: {data['runs']} runs in {len(data['rows'])} configurations, {size:.1f} MB")
    if chosen.open:
        webbrowser.open(chosen.out.absolute().as_uri())
    return 0


def stored_runs(chosen: argparse.Namespace) -> list[Result]:
    """Return the runs of --from; without it, or if --store is given too, those of the store."""
    runs = [run for file in chosen.files or [] for run in read_json(file, notice)]
    if chosen.store and not chosen.store.is_file():
        raise InputError(f"there is no result store {str(chosen.store)!r}: correct --store")
    return runs + Store(chosen.store).runs() if chosen.store or not chosen.files else runs


def _is_report(path: Path) -> bool:
    """Return True if a file is an earlier report, which may be overwritten."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return b"<title>recollect report</title>" in file.read(4096)


def _wanted(runs: list[Result], names: list[str] | None) -> list[Result]:
    found = [run for run in runs if names is None or run.benchmark in names]
    there = sorted({run.benchmark for run in runs})
    for name in names or []:
        if name not in there:
            raise InputError(f"there are no runs on {name!r}, only on {', '.join(there)}")
    return found
