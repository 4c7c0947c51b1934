"""`recollect doctor`: what works on this machine, in one screen."""

from __future__ import annotations

import argparse
import platform
from importlib import metadata

import torch

from recollect import __version__
from recollect.cli.common import add_store
from recollect.cli.screen import compact_table, console
from recollect.errors import RecollectError
from recollect.experiments.store import Store
from recollect.methods import others
from recollect.streams.data import CATALOGUE, look
from recollect.train.compiled import compiler_exists
from recollect.train.parallel import cores

__all__ = ["configure"]

# What each brings, and what for.
EXTRAS = {
    "digits": ("scikit-learn", "benchmarks that need no download"),
    "figures": ("matplotlib", "recollect figures"),
    "parquet": ("pyarrow", "Parquet files in recollect stream"),
    "ray": ("ray", "--on ray"),
    "river": ("river", "RiverClassifier"),
    "search": ("optuna", "recollect search --trials"),
    "sklearn": ("scikit-learn", "SklearnClassifier"),
    "tensorboard": ("tensorboard", "--tensorboard"),
}
YES, NO = "[green]✓[/]", "[yellow]-[/]"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_store(parser)
    parser.set_defaults(command=command)


def command(chosen: argparse.Namespace) -> int:
    """Look, and print; nothing is changed or fetched."""
    from rich.markup import escape

    table = compact_table()
    table.show_header = False
    for group in (_machine(), _data(), _extras(), _packages(), _store(chosen)):
        for works, kind, what, state in group:
            table.add_row(YES if works else NO, kind, what, escape(state))
        table.add_section()
    screen = console()
    screen.print(f"recollect {__version__}", style="bold")
    screen.print(table)
    missing = [extra for extra, (package, _) in EXTRAS.items() if not _version(package)]
    if missing:
        screen.print(
            f"To add an extra: pip install 'recollect[{missing[0]}]'", style="dim", markup=False
        )
    return 0


Line = tuple[bool, str, str, str]


def _machine() -> list[Line]:
    gpus = [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())]
    return [
        (True, "machine", "Python", platform.python_version()),
        (True, "", "PyTorch", torch.__version__),
        (True, "", "cores", str(cores())),
        (bool(gpus), "", "GPU", ", ".join(gpus) or "none that torch can use: all runs on the CPU"),
        (
            compiler_exists(), "", "C++ compiler",
            "long runs are compiled" if compiler_exists() else "none: long runs are not compiled",
        ),
    ]  # fmt: skip


def _data() -> list[Line]:
    lines: list[Line] = []
    for name in CATALOGUE:
        found = look(name)
        state = found.where if not found.problem else f"{found.where}: {found.problem}"
        if found.where == "not here":
            extra = f"needs the extra {name}" if name in EXTRAS else None
            state = extra or f"not here: recollect data fetch {name}"
        lines.append((not found.problem, "" if lines else "data", name, state))
    return lines


def _extras() -> list[Line]:
    lines: list[Line] = []
    for extra, (package, use) in EXTRAS.items():
        version = _version(package)
        name = f"{extra} ({package} {version})" if version else extra
        lines.append((bool(version), "" if lines else "extras", name, f"for {use}"))
    return lines


def _packages() -> list[Line]:
    """Methods of other packages, and those that could not be used."""
    found = others()
    lines: list[Line] = []
    for name, package in found.packages.items():
        lines.append((True, "" if lines else "methods", name, f"from {package}"))
    for problem in found.problems:
        lines.append((False, "" if lines else "methods", "left out", problem))
    return lines


def _store(chosen: argparse.Namespace) -> list[Line]:
    store = Store(chosen.store)
    try:
        count = len(store.rows(all_codes=True))
    except RecollectError as error:
        return [(False, "store", "results", str(error))]
    return [(True, "store", f"{count} runs", str(store.path))]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
