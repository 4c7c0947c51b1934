"""`recollect methods` and `recollect benchmarks`: what there is."""

from __future__ import annotations

import argparse

from recollect.cli.common import console
from recollect.experiments.labels import SETTINGS
from recollect.methods import (
    REQUIREMENTS,
    every_method,
    hyperparameters,
    others,
    requirements,
    symbol,
)
from recollect.streams import BENCHMARKS

__all__ = ["configure"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Let `recollect methods` and `recollect benchmarks` print their lists."""
    of = {"methods": list_methods, "benchmarks": list_benchmarks}
    parser.set_defaults(command=of[parser.prog.split()[-1]])


def list_methods(chosen: argparse.Namespace) -> int:
    """Print every method with its hyper-parameters and needs, and which requirements it meets."""
    from rich.markup import escape
    from rich.table import Table

    known, packages = every_method(), others().packages
    table = Table(title="Methods")
    for column in ("name", "title", "hyper-parameters", "memory", "needs", "what it does"):
        table.add_column(column)
    for name, kind in known.items():
        needs = {
            "task boundaries": kind.needs.boundaries,
            "task at test": kind.needs.task_id,
            "all data": kind.needs.all_data,
        }
        origin = f" (from {packages[name]})" if name in packages else ""
        table.add_row(
            name,
            kind.title,
            ", ".join(("lr", *map(symbol, hyperparameters(kind)))),
            ", ".join(kind.replay.names) if kind.replay else "-",
            ", ".join(need for need, needed in needs.items() if needed) or "-",
            escape(_first_line(kind.__doc__) + origin),
        )
    console().print(table)
    met = Table(title="What general continual learning asks for (Table 1 of the paper)")
    for column in ("method", *REQUIREMENTS):
        met.add_column(column, justify="left" if column == "method" else "center")
    for kind in known.values():
        met.add_row(kind.title, *("✓" if mark else "-" for mark in requirements(kind).values()))
    console().print(met)
    return 0


def list_benchmarks(chosen: argparse.Namespace) -> int:
    """Print every benchmark with its setting and sizes."""
    from rich.table import Table

    table = Table(title="Benchmarks")
    for column in ("name", "setting", "tasks", "batch", "data", "what it is"):
        table.add_column(column)
    for name, known in BENCHMARKS.items():
        table.add_row(
            name,
            SETTINGS[known.setting] + (" and Task-IL" if known.setting == "class" else ""),
            str(known.tasks),
            str(known.batch),
            known.dataset,
            known.description,
        )
    console().print(table)
    return 0


def _first_line(doc: str | None) -> str:
    return next(iter((doc or "").strip().splitlines()), "")
