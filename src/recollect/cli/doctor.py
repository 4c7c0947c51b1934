"""`recollect doctor`: check hardware, data sets, extras, methods and the result store."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Iterator
from importlib import metadata

import torch

from recollect import __version__
from recollect.cli.options import add_shared
from recollect.cli.screen import compact_table, console
from recollect.errors import RecollectError
from recollect.experiments.store import Store
from recollect.methods import others
from recollect.streams.data import CATALOGUE, look
from recollect.train.compiled import compiler_exists
from recollect.train.devices import bfloat16_is_fast, cores

# The package that each extra installs, and its use.
EXTRAS = {
    "digits": ("scikit-learn", "benchmarks that need no download"),
    "figures": ("matplotlib", "recollect figures"),
    "pandas": ("pandas", "Results.to_pandas"),
    "parquet": ("pyarrow", "Parquet files in recollect stream"),
    "ray": ("ray", "--on ray"),
    "river": ("river", "RiverClassifier"),
    "search": ("optuna", "recollect search --trials"),
    "sklearn": ("scikit-learn", "SklearnClassifier"),
    "tensorboard": ("tensorboard", "--tensorboard"),
}
BFLOAT16 = ", with bfloat16 (--precision bf16)"
NO_COMPILER = "none: long runs are not compiled"
YES, NO = "[green]✓[/]", "[yellow]-[/]"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_shared(parser, "--store")
    parser.set_defaults(command=command)


def command(chosen: argparse.Namespace) -> int:
    """Print the checks; nothing is changed or downloaded."""
    from rich.markup import escape

    table = compact_table()
    table.show_header = False
    groups = {"machine": _machine(), "data": _data(), "extras": _extras(), "methods": _packages(),
              "store": _store(chosen)}  # fmt: skip
    for name, group in groups.items():
        for number, (works, what, state) in enumerate(group):
            table.add_row(YES if works else NO, "" if number else name, what, escape(state))
        table.add_section()
    screen = console()
    screen.print(f"recollect {__version__}", style="bold")
    screen.print(table)
    missing = [extra for extra, (package, _) in EXTRAS.items() if not _version(package)]
    if missing:
        screen.print(
            f"To install an extra: pip install 'recollect[{missing[0]}]'", style="dim", markup=False
        )
    return 0


Line = tuple[bool, str, str]  # whether it works, its name, its state


def _machine() -> list[Line]:
    gpus = [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())]
    compiles = compiler_exists()
    return [
        (True, "Python", platform.python_version()),
        (True, "PyTorch", torch.__version__),
        (True, "cores", f"{cores()}{BFLOAT16 if bfloat16_is_fast() else ''}"),
        (bool(gpus), "GPU", ", ".join(gpus) or "none available to PyTorch: training uses the CPU"),
        (compiles, "C++ compiler", "long runs are compiled" if compiles else NO_COMPILER),
    ]


def _data() -> Iterator[Line]:
    missing = []
    for name in CATALOGUE:
        found = look(name)
        if found.where == "not here" and name not in EXTRAS:
            missing.append(name)
            continue
        state = found.where if not found.problem else f"{found.where}: {found.problem}"
        if found.where == "not here":
            state = f"needs the extra {name}"
        yield not found.problem, name, state
    if missing:
        yield False, "not here", f"recollect data fetch {' '.join(missing)}"


def _extras() -> Iterator[Line]:
    for extra, (package, use) in EXTRAS.items():
        version = _version(package)
        name = f"{extra} ({package} {version})" if version else extra
        yield bool(version), name, f"for {use}"


def _packages() -> Iterator[Line]:
    found = others()
    yield from ((True, name, f"from {package}") for name, package in found.packages.items())
    yield from ((False, "left out", problem) for problem in found.problems)


def _store(chosen: argparse.Namespace) -> Iterator[Line]:
    store = Store(chosen.store)
    folder = next(each for each in store.path.absolute().parents if each.exists())
    if not store.path.exists() and not (folder.is_dir() and os.access(folder, os.W_OK)):
        yield False, "results", f"{store.path} cannot be created: {folder} is no writable folder"
        return
    try:
        yield True, f"{len(store.runs(all_codes=True))} runs", str(store.path)
    except RecollectError as error:
        yield False, "results", str(error)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
