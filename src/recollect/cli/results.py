"""`recollect results`: what the store has, as a table or a file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recollect.cli.common import add_force, add_store
from recollect.cli.screen import add_groups, compact_table, console, notice
from recollect.errors import InputError
from recollect.experiments.exports import (
    FORMATS,
    Column,
    exported,
    mean_cells,
    score_columns,
)
from recollect.experiments.files import read_json, write_runs
from recollect.experiments.labels import MORE_SCORES, SCORES
from recollect.experiments.results import Results, Summary
from recollect.experiments.store import Store
from recollect.files import check_new, write_text
from recollect.methods import method as known_method

if TYPE_CHECKING:
    from rich.table import Table

NAMES = {name.replace("_", "-"): name for name in SCORES | MORE_SCORES}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--benchmark", metavar="NAME", help="only this benchmark")
    parser.add_argument("--method", metavar="NAME", help="only this method")
    parser.add_argument("--buffer", type=int, metavar="N", help="only this buffer size")
    parser.add_argument("--validation", action="store_true",
                        help="scores on the validation split, as a search makes them; --export has "
                             "both splits unless this is given")  # fmt: skip
    parser.add_argument("--all-code", action="store_true",
                        help="runs of older code too, not only the newest of each")  # fmt: skip
    parser.add_argument("--import", dest="sources", nargs="+", type=Path, metavar="FILE",
                        default=[], help="take in what --json wrote anywhere, or files of one run "
                                         "a line (.jsonl), or folders of them")  # fmt: skip
    parser.add_argument("--export", type=Path, metavar="FILE",
                        help=f"write a table ({', '.join(FORMATS)}), all (.json), or one run a "
                             "line (.jsonl)")  # fmt: skip
    parser.add_argument("--scores", nargs="+", choices=NAMES, metavar="SCORE", default=[],
                        help=f"what a table of means shows: {', '.join(NAMES)} (default: accuracy, "
                             "and in files also the last two if a run has curves)")  # fmt: skip
    add_force(parser)
    add_store(parser)
    parser.set_defaults(command=command)


def command(chosen: argparse.Namespace) -> int:
    """Take files in, then print or write what fits."""
    store, out = Store(chosen.store), chosen.export
    scores = [NAMES[name] for name in dict.fromkeys(chosen.scores)]
    if out and out.suffix not in (*FORMATS, ".json", ".jsonl"):
        raise InputError(
            f"cannot write {out.suffix or out.name!r}: give {', '.join(FORMATS)}, .json or .jsonl"
        )
    if out and scores and out.suffix not in (".md", ".tex"):
        raise InputError(
            f"--scores is for tables of means (the screen, .md and .tex): a {out.suffix} file has "
            f"all scores, so leave it out"
        )
    if out:
        check_new(out, chosen.force, "--force")
    read = [(path, read_json(path, notice)) for path in chosen.sources]
    for path, rows in read:
        new = store.add(rows)
        notice(f"{path}: {len(rows)} runs, {new} of them new")
    filters: dict[str, Any] = {
        "benchmark": chosen.benchmark,
        "method": chosen.method and _named(chosen.method),
        "buffer": ... if chosen.buffer is None else chosen.buffer,
        "validation": True if chosen.validation else None if out else False,
    }
    found = store.rows(**filters, all_codes=chosen.all_code)
    results = Results([row.result for row in found])
    if not results:
        notice(_nothing(store, chosen))
        return 0
    if out:
        if out.suffix in FORMATS:
            write_text(out, exported(results, out.suffix, scores))
        else:
            write_runs(out, found)
        notice(f"{len(results)} runs written to {out}")
        return 0
    screen = console()
    screen.print(f"{len(results)} runs in {store.path}", style="bold")
    screen.print(_table(results, scores or ["accuracy"]))
    for (benchmark, name, _), codes in _codes(results).items():
        if len(codes) > 1 and not chosen.all_code:
            notice(
                f"the rows of {name} on {benchmark} were made by {len(codes)} versions of the code"
            )
    if not chosen.all_code:
        hidden = len(store.rows(**filters, all_codes=True)) - len(found)
        if hidden:
            notice(f"{hidden} run{'s' if hidden > 1 else ''} of older code not shown: --all-code")
    return 0


def _codes(results: Results) -> dict[tuple[str, str, str], set[str]]:
    """The codes that made the runs of a method with one network on one benchmark."""
    found: dict[tuple[str, str, str], set[str]] = {}
    for run in results:
        found.setdefault((run.benchmark, run.method, run.network), set()).add(run.code)
    return found


def _named(method: str) -> str:
    """The name of a method that may be given by its title; a store may have others too."""
    try:
        return known_method(method).name
    except InputError:
        return method


def _nothing(store: Store, chosen: argparse.Namespace) -> str:
    there = store.rows(validation=chosen.validation, all_codes=chosen.all_code)
    if not there:
        return f"no such runs in {store.path}: train some, or --import what --json wrote"
    benchmarks, methods = (
        ", ".join(dict.fromkeys(getattr(row.result, name) for row in there))
        for name in ("benchmark", "method")
    )
    return f"no such runs in {store.path}; it has the benchmarks {benchmarks}; methods {methods}"


def _table(results: Results, scores: list[str]) -> Table:
    summaries, columns = results.summaries(), score_columns(results, scores)
    numbers = ("buffer", "seeds", *(column.title for column in columns))
    table = compact_table("benchmark", "method", right=numbers)
    table.add_column("values")
    add_groups(table, ((each.first.benchmark, _row(each, columns)) for each in summaries))
    return table


def _row(summary: Summary, columns: list[Column]) -> list[str]:
    benchmark, method, buffer, _, *means = mean_cells(summary, columns)
    counts = ", ".join(filter(None, (str(len(summary.runs)), summary.remarks)))
    return [benchmark, method, buffer, counts, *means, summary.values]
