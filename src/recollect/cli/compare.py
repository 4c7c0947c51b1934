"""`recollect compare`: paired differences between two configurations."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from recollect.cli.options import add_shared
from recollect.cli.report import stored_runs
from recollect.cli.screen import console, notice
from recollect.errors import InputError
from recollect.experiments.apart import SHOWN
from recollect.experiments.comparison import compare
from recollect.experiments.files import read_json
from recollect.methods import method
from recollect.train import Result
from recollect.train.optimisation import Optimisation

FIELDS = (
    "benchmark", "method", "buffer", "seed", "epochs", "validation", "network", "network_class",
    "stream", "data", "code", "precision", "optimiser", "schedule",
)  # fmt: skip
PARTS = ("network", "stream", "code")  # a prefix of their fingerprints selects them
SIDES = 2  # lines that describe A and B


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    what = ("a file that --json wrote, a folder of them, or a selection from the store such as "
            "method=derpp,buffer=200,lr=0.03")  # fmt: skip
    parser.add_argument("a", metavar="A", help=what)
    parser.add_argument("b", metavar="B", help="runs to compare with, in the same form")
    add_shared(parser, "--from", "--store")
    parser.set_defaults(command=command)


def command(chosen: argparse.Namespace) -> int:
    """Print the paired differences with their statistics."""
    sides = [_runs(text, chosen) for text in (chosen.a, chosen.b)]
    screen = console()
    for number, each in enumerate(compare(*sides, notice=notice)):
        if number:
            screen.print()
        for at, line in enumerate(str(each).splitlines()):
            style = "bold" if at < SIDES else None
            screen.print(line, style=style, markup=False, soft_wrap=True)
    return 0


def _runs(text: str, chosen: argparse.Namespace) -> list[Result]:
    if Path(text).exists():
        return read_json(text, notice)
    if "=" not in text:
        raise InputError(
            f"there is no file or folder {text!r}; a selection from the store has the form "
            f"method=derpp,buffer=200"
        )
    return _selected(stored_runs(chosen), text)


def _selected(runs: Sequence[Result], text: str) -> list[Result]:
    """Return the runs that match a selection such as `method=derpp,lr=0.03`."""
    # A comma within brackets belongs to a value, as in network=MLP(hidden=[20, 30]).
    pieces = re.split(r",(?![^(]*\))", text)
    wanted = dict(piece.partition("=")[::2] for piece in pieces if piece)
    wanted = {name.strip(): value.strip() for name, value in wanted.items()}
    wanted.setdefault("validation", "false")
    known = dict.fromkeys([*FIELDS, *(name for run in runs for name in run.hyperparameters)])
    left = [*runs]
    for name, value in wanted.items():
        if name not in known:
            raise InputError(f"runs cannot be selected by {name!r}: give any of {', '.join(known)}")
        name = "stream" if name == "data" else name  # tables say data
        fits = _test(name, value)
        found = [run for run in left if fits(run)]
        if left and not found:
            there = ", ".join(sorted({_words(run, name) for run in left}))
            said = "data" if name == "stream" else name
            raise InputError(f"no runs match {text!r}: {said} can be {there}, not {value}")
        left = found
    if not left:
        raise InputError("there are no runs to select from: train some, or give files with --from")
    return left


def _test(name: str, value: str) -> Callable[[Result], bool]:
    if name == "method":
        with suppress(InputError):  # a method that is not installed is matched by name
            value = method(value).name
    if name in PARTS:
        return lambda run: (
            (bool(value) and getattr(run, name).startswith(value))
            or (
                name == "network"
                and value.lower() in (_class(run).lower(), _words(run, name).lower())
            )
        )
    if name == "schedule":
        return lambda run: value.lower() in (_words(run, name), _words(run, name).split()[0])
    number = _number(value)
    return lambda run: (
        _words(run, name).lower() == value.lower()
        or (number is not None and _number(_words(run, name)) == number)
    )


def _class(run: Result) -> str:
    """Return what tables call the network of a run."""
    return run.network_class or ("default" if run.network else "unknown")


def _words(run: Result, name: str) -> str:
    if name in ("optimiser", "schedule"):
        names = Optimisation.read(run.optimiser)
        plain = names.schedule == "constant" and names.per == "stream"
        per = "" if plain else f" per {names.per}"
        nesterov = " nesterov" if names.nesterov else ""
        return f"{names.optimiser}{nesterov}" if name == "optimiser" else names.schedule + per
    value = getattr(run, name) if name in FIELDS else run.hyperparameters.get(name)
    if name in PARTS:
        shown = str(value)[:SHOWN] or "unknown"
        return f"{_class(run)} {shown}" if name == "network" and run.network else shown
    return "-" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
