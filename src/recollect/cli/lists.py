"""`recollect methods` and `recollect benchmarks`: what there is."""

from __future__ import annotations

import argparse
import inspect

from recollect import methods
from recollect.cli.screen import compact_table, console
from recollect.experiments.labels import SETTINGS
from recollect.streams import BENCHMARKS


def configure(parser: argparse.ArgumentParser) -> None:
    """Let `recollect methods` and `recollect benchmarks` print their lists."""
    if parser.prog.endswith("benchmarks"):
        parser.set_defaults(command=list_benchmarks)
        return
    parser.add_argument("names", nargs="*", metavar="NAME", help="describe these methods alone")
    parser.set_defaults(command=list_methods)


def list_methods(chosen: argparse.Namespace) -> int:
    """Print every method with its hyper-parameters and needs, and which requirements it meets."""
    from rich.markup import escape
    from rich.table import Table

    if chosen.names:
        for kind in [methods.method(name) for name in dict.fromkeys(chosen.names)]:
            _describe(kind)
        return 0
    known = methods.every_method()
    table = Table("name", "title", "hyper-parameters", "memory", "needs", "what it does",
                  title="Methods")  # fmt: skip
    for name, kind in known.items():
        first = inspect.cleandoc(kind.__doc__ or "").partition("\n")[0]
        table.add_row(
            name,
            kind.title,
            ", ".join(("lr", *(each.symbol for each in methods.hyperparameters(kind).values()))),
            ", ".join(kind.replay.names) if kind.replay else "-",
            _needs(kind),
            escape(first + _origin(name)),
        )
    console().print(table)
    met = Table(title="What general continual learning asks for (Table 1 of the paper)")
    for column in ("method", *methods.REQUIREMENTS):
        met.add_column(column, justify="left" if column == "method" else "center")
    for kind in known.values():
        met.add_row(
            kind.title, *("✓" if mark else "-" for mark in methods.requirements(kind).values())
        )
    console().print(met)
    return 0


def _describe(kind: type[methods.Method]) -> None:
    from rich.markup import escape

    screen = console()
    about = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0]
    screen.print(f"[bold]{kind.title}[/] ({kind.name}){escape(_origin(kind.name))}")
    screen.print(escape(" ".join(about.split())))
    stored = ", ".join(kind.replay.names) if kind.replay else "nothing"
    screen.print(f"stores: {stored} · needs: {_needs(kind)}", style="dim")
    table = compact_table("option", "default", "what it is")
    for each in methods.hyperparameters(kind).values():
        default = "-" if each.default is None else f"{each.default:g}"
        table.add_row(f"--{each.symbol}", default, escape(each.help))
    if table.rows:
        screen.print(table)


def _needs(kind: type[methods.Method]) -> str:
    needs = {
        "task boundaries": kind.needs.boundaries,
        "task at test": kind.needs.task_id,
        "all data": kind.needs.all_data,
    }
    return ", ".join(need for need, needed in needs.items() if needed) or "-"


def _origin(name: str) -> str:
    packages = methods.others().packages
    return f" (from {packages[name]})" if name in packages else ""


def list_benchmarks(chosen: argparse.Namespace) -> int:
    """Print every benchmark with its setting and sizes."""
    from rich.table import Table

    table = Table("name", "setting", "tasks", "batch", "data", "what it is", title="Benchmarks")
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
