"""`recollect results`: list, export and import the results in the store."""

from __future__ import annotations

import argparse
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recollect.cli.options import add_shared
from recollect.cli.screen import add_groups, compact_table, console, notice
from recollect.errors import InputError
from recollect.experiments.exports import FORMATS, Column, mean_cells, save, score_columns
from recollect.experiments.files import read_json
from recollect.experiments.labels import MORE_SCORES, SCORES
from recollect.experiments.results import Results, Summary
from recollect.experiments.store import Store
from recollect.files import check_new
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
                        help="show runs on the validation split, such as those of a search; "
                             "without it, --export writes both splits")  # fmt: skip
    parser.add_argument("--all-code", action="store_true",
                        help="include runs of older versions of the code")  # fmt: skip
    parser.add_argument("--import", dest="sources", nargs="+", type=Path, metavar="FILE",
                        default=[], help="add runs from files that --json wrote, .jsonl files or "
                                         "folders to the store")  # fmt: skip
    parser.add_argument("--export", type=Path, metavar="FILE",
                        help=f"write a table ({', '.join(FORMATS)}), all fields (.json), or one "
                             "run per line (.jsonl)")  # fmt: skip
    parser.add_argument("--scores", nargs="+", choices=NAMES, metavar="SCORE", default=[],
                        help=f"scores in a table of means: {', '.join(NAMES)} (default: accuracy; "
                             "in files also the last two if a run has curves)")  # fmt: skip
    add_shared(parser, "--force", "--store")
    parser.set_defaults(command=command)


def command(chosen: argparse.Namespace) -> int:
    """Import files, then print or export the matching runs."""
    store, out = Store(chosen.store), chosen.export
    scores = [NAMES[name] for name in dict.fromkeys(chosen.scores)]
    if out and out.suffix not in (*FORMATS, ".json", ".jsonl"):
        raise InputError(
            f"cannot export to {out.name!r}: use a name that ends in {', '.join(FORMATS)}, .json "
            f"or .jsonl"
        )
    if out and scores and out.suffix not in (".md", ".tex"):
        raise InputError(
            f"--scores applies to tables of means (the screen, .md and .tex): a {out.suffix} file "
            f"has all scores, so omit it"
        )
    if out:
        check_new(out, chosen.force, "--force")
    read = [(path, read_json(path, notice)) for path in chosen.sources]
    for path, runs in read:
        new = store.add(runs)
        notice(f"{path}: {len(runs)} runs, {new} of them new")
    method = chosen.method
    with suppress(InputError):  # a method that is not installed is matched by name
        method = method and known_method(method).name
    filters: dict[str, Any] = {
        "benchmark": chosen.benchmark,
        "method": method,
        "buffer": ... if chosen.buffer is None else chosen.buffer,
        "validation": True if chosen.validation else None if out else False,
    }
    results = Results(store.runs(**filters, all_codes=chosen.all_code))
    if chosen.store and not store.path.exists():
        raise InputError(
            f"there is no result store {str(store.path)!r}: correct --store, or import files with "
            f"--import"
        )
    if not results:
        if chosen.benchmark or chosen.method or chosen.buffer is not None:
            raise InputError(_nothing(store, chosen))
        notice(_nothing(store, chosen))
        return 0
    if out:
        save(_ordered(results) if out.suffix in FORMATS else results, out, scores)
        notice(f"{len(results)} runs written to {out}")
        return 0
    screen = console()
    screen.print(f"{len(results)} runs in {store.path}", style="bold")
    screen.print(_table(results, scores or ["accuracy"]))
    codes_of: dict[tuple[str, str, str], set[str]] = {}
    for run in results:
        codes_of.setdefault((run.benchmark, run.method, run.network), set()).add(run.code)
    for (benchmark, name, _), codes in codes_of.items():
        if len(codes) > 1 and not chosen.all_code:
            notice(f"the rows of {name} on {benchmark} come from {len(codes)} versions of the code")
    if not chosen.all_code:
        hidden = len(store.runs(**filters, all_codes=True)) - len(results)
        if hidden:
            noun = "run" if hidden == 1 else "runs"
            notice(f"{hidden} {noun} of older versions of the code not shown: use --all-code")
    return 0


def _nothing(store: Store, chosen: argparse.Namespace) -> str:
    there = store.runs(validation=chosen.validation, all_codes=chosen.all_code)
    if not there:
        return f"no matching runs in {store.path}: train some, or import files with --import"
    benchmarks, methods = (
        ", ".join(dict.fromkeys(getattr(run, name) for run in there))
        for name in ("benchmark", "method")
    )
    return f"no matching runs in {store.path}; benchmarks: {benchmarks}; methods: {methods}"


def _table(results: Results, scores: list[str]) -> Table:
    summaries, columns = _sorted(results.summaries()), score_columns(results, scores)
    numbers = ("buffer", "seeds", *(column.title for column in columns))
    table = compact_table("benchmark", "method", right=numbers)
    table.add_column("values")
    add_groups(table, ((each.first.benchmark, _row(each, columns)) for each in summaries))
    return table


def _ordered(results: Results) -> Results:
    """Put runs in the order of the table on the screen, and then of their seeds."""
    groups = _sorted(results.summaries())
    by_seed = attrgetter("seed")
    return Results([run for each in groups for run in sorted(each.runs, key=by_seed)])


def _sorted(summaries: list[Summary]) -> list[Summary]:
    """Put the points of a grid in order; benchmarks and methods stay in that of their first run."""
    runs = [each.first for each in summaries]
    benchmarks, methods = (
        list(dict.fromkeys(getattr(run, name) for run in runs)) for name in ("benchmark", "method")
    )

    def key(each: Summary) -> tuple[object, ...]:
        run = each.first
        rank = benchmarks.index(run.benchmark), methods.index(run.method), run.validation
        return (
            *rank,
            run.buffer or 0,
            run.epochs,
            each.apart,
            run.optimiser,
            *run.hyperparameters.items(),
        )

    return sorted(summaries, key=key)


def _row(summary: Summary, columns: list[Column]) -> list[str]:
    benchmark, method, buffer, _, *means = mean_cells(summary, columns)
    counts = ", ".join(filter(None, (str(len(summary.runs)), summary.remarks)))
    return [benchmark, method, buffer, counts, *means, summary.values]
