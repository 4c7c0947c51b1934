"""`recollect methods` and `recollect benchmarks`: list and describe them."""

from __future__ import annotations

import argparse
import inspect

from recollect import methods
from recollect.cli.screen import compact_table, console
from recollect.experiments.labels import SETTINGS
from recollect.streams import BENCHMARKS

TITLES_FROM = 100  # narrower screens have no room for the column of titles


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `recollect methods` or `recollect benchmarks`."""
    if parser.prog.endswith("benchmarks"):
        parser.set_defaults(command=list_benchmarks)
        return
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help="describe these methods in detail (default: list all)")  # fmt: skip
    parser.set_defaults(command=list_methods)


def list_methods(chosen: argparse.Namespace) -> int:
    """List all methods with what they need and do, or describe the named ones in detail."""
    from rich.markup import escape

    if chosen.names:
        for kind in [methods.method(name) for name in dict.fromkeys(chosen.names)]:
            _describe(kind)
        return 0
    screen = console()
    titles = ["title"] if screen.width >= TITLES_FROM else []
    table = compact_table("name", *titles, "needs", "what it does")
    for column in table.columns[:-1]:
        column.no_wrap = True
    for name, kind in methods.every_method().items():
        first = inspect.cleandoc(kind.__doc__ or "").partition("\n")[0]
        title = [escape(kind.title)] if titles else []
        table.add_row(name, *title, _needs(kind), escape(first + _origin(name)))
    screen.print(table)
    screen.print("recollect methods NAME prints its hyper-parameters, what it stores and which "
                 "requirements of general continual learning it meets", style="dim")  # fmt: skip
    return 0


def _describe(kind: type[methods.Method]) -> None:
    from rich.markup import escape

    screen = console()
    about = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0]
    screen.print(f"[bold]{kind.title}[/] ({kind.name}){escape(_origin(kind.name))}")
    screen.print(escape(" ".join(about.split())))
    stored = ", ".join(kind.replay.names) if kind.replay else "nothing"
    screen.print(f"stores: {stored} · needs: {_needs(kind)}", style="dim")
    met = (f"{'✓' if mark else '-'} {name}" for name, mark in methods.requirements(kind).items())
    screen.print(f"requirements (Table 1 of the paper): {'  '.join(met)}", style="dim")
    table = compact_table("option", "default", "what it is")
    for each in methods.hyperparameters(kind).values():
        default = "-" if each.default is None else f"{each.default:g}"
        table.add_row(f"--{each.symbol}", default, escape(each.help))
    if table.rows:
        screen.print(table)


def _needs(kind: type[methods.Method]) -> str:
    needs = {
        "boundaries": kind.needs.boundaries,
        "task id": kind.needs.task_id,
        "all data": kind.needs.all_data,
    }
    return ", ".join(need for need, needed in needs.items() if needed) or "-"


def _origin(name: str) -> str:
    packages = methods.others().packages
    return f" (from {packages[name]})" if name in packages else ""


def list_benchmarks(chosen: argparse.Namespace) -> int:
    """List all benchmarks with their setting, number of tasks, batch size and data set."""
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
