"""Command lines that reproduce a run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import groupby

from recollect.methods import every_method, hyperparameters, symbol
from recollect.streams import BENCHMARKS
from recollect.train import Result

__all__ = ["again"]


def again(run: Result, seeds: Sequence[int]) -> str:
    """Return the command that trains these seeds of a run again, or an empty string.

    Methods without a name and streams from arrays have no such command.
    """
    kind, known = every_method().get(run.method), BENCHMARKS.get(run.benchmark)
    if kind is None or known is None:
        return ""
    options = {"lr", "bs", "mbs", *map(symbol, hyperparameters(kind))}
    if not options.issuperset(run.hyperparameters):
        return ""
    words = ["recollect", "run", run.benchmark, run.method]
    words += [] if run.buffer is None else ["--buffer", str(run.buffer)]
    for name, value in run.hyperparameters.items():
        words += [f"--{name}", _exactly(value)]
    words += [] if run.epochs == known.epochs else ["--epochs", str(run.epochs)]
    words += ["--validation"] if run.validation else []
    return shlex.join([*words, "--seeds", _seeds(seeds)])


def _exactly(value: float) -> str:
    """Format a number with the fewest digits that round-trip.

    >>> _exactly(10.0), _exactly(0.03)
    ('10', '0.03')
    """
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _seeds(seeds: Sequence[int]) -> str:
    """Format seeds for the option --seeds.

    >>> _seeds([0, 1, 2, 5]), _seeds([3])
    ('0-2,5', '3-3')
    """
    pieces = []
    for _, found in groupby(enumerate(sorted(seeds)), key=lambda pair: pair[1] - pair[0]):
        piece = [seed for _, seed in found]
        pieces.append((piece[0], piece[-1]))
    # A single number would be a count: 3 means 0 to 2.
    alone = len(pieces) == 1
    return ",".join(f"{a}-{b}" if a < b or alone else f"{a}" for a, b in pieces)
