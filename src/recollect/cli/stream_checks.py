"""Refuse options of `recollect stream` that contradict each other or would change nothing."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence

from recollect.cli.options import given_values
from recollect.cli.stream_late import check_late
from recollect.core.locations import is_location
from recollect.errors import InputError, unknown_name
from recollect.feeds import STDIN
from recollect.methods import Method, every_method, hyperparameters, method, others, symbol
from recollect.train.optimisation import NUMBERS

# Options that only sources of some formats have.
OF_IMAGES = ("order", "size")
OF_CSV = ("delimiter", "header")
OF_TABLES = ("label", "features", "ignore", "categorical", "drop_text", "id", "keep")


def fit_for_streams(methods: Mapping[str, type[Method]]) -> dict[str, type[Method]]:
    """Return the methods that need no task boundaries, task ids or repeated access to the data."""
    return {
        name: kind
        for name, kind in methods.items()
        if not (kind.needs.boundaries or kind.needs.task_id or kind.needs.all_data)
    }


def method_for_streams(name: str) -> type[Method]:
    """Find a method by its name; raise `InputError` if it cannot learn from a stream."""
    try:
        kind = method(name)
    except InputError:
        if is_location(name):
            raise
        error = unknown_name("method", name, fit_for_streams(every_method()))
        raise InputError("; ".join([str(error), *others().problems])) from None
    known = fit_for_streams(every_method())
    if kind.name not in known:
        raise InputError(
            f"{kind.title} cannot learn from a stream, which has no task boundaries: use one "
            f"of {', '.join(known)}"
        )
    return kind


def check_options(chosen: argparse.Namespace, kind: type[Method], sources: Sequence[str]) -> None:
    """Raise `InputError` for options that cannot be combined; `sources` include the label files."""
    if chosen.memory is not None and kind.replay is None:
        raise InputError(f"{kind.title} has no memory: leave out --memory")
    _check_hyperparameters(chosen, kind)
    sizes = [chosen.width, *(chosen.hidden or ())]
    if any(size is not None and size < 1 for size in sizes):
        raise InputError("--hidden and --width must be at least 1")
    for name, network, other in (("width", "resnet18", "hidden"), ("hidden", "mlp", "width")):
        if getattr(chosen, name) is not None and chosen.network != network:
            raise InputError(
                f"--{name} is only for --network {network}: the size of the {chosen.network} is "
                f"given by --{other}"
            )
    if chosen.standardise and chosen.network == "resnet18":
        raise InputError("--standardise is only for the mlp: resnet18 has normalisation layers")
    if not re.fullmatch(r'tab|\\t|[^"\n\r]', chosen.delimiter or ",", re.DOTALL):
        raise InputError(f"--delimiter must be one character, or tab, not {chosen.delimiter!r}")
    if len(set(sources)) < len(sources):
        raise InputError("the same source is given twice")
    if chosen.idle is not None and not chosen.follow and STDIN not in sources:
        raise InputError("--idle needs a source that waits for data: add --follow, or use -")
    if chosen.replayed and STDIN not in sources:
        raise InputError("--replayed is only for standard input: files resume where they stopped")
    if chosen.forget and chosen.id is None:
        raise InputError("--forget removes examples by id: give the id column or key with --id")
    if chosen.forget and chosen.fresh:
        raise InputError("--forget changes the saved state, which --fresh ignores: leave out one")
    check_late(chosen)


def check_format(chosen: argparse.Namespace, found: str) -> None:
    """Raise `InputError` for options that sources of the format `found` do not have."""
    tables = "CSV, JSON lines and Parquet, whose rows have columns"
    for names, formats, what in (
        (OF_IMAGES, ("images",), "folders of images"),
        (OF_CSV, ("csv",), "CSV"),
        (OF_TABLES, ("csv", "jsonl", "parquet"), tables),
    ):
        for name in names:
            value = getattr(chosen, name)
            given = value not in (None, []) and not (name == "drop_text" and not value)
            if given and found not in formats:
                raise InputError(
                    f"--{name.replace('_', '-')} is only for {what}: leave it out, as the format "
                    f"of the sources is {found}"
                )


def _check_hyperparameters(chosen: argparse.Namespace, kind: type[Method]) -> None:
    own = [symbol(name) for name in hyperparameters(kind)]
    for name in given_values(chosen):
        if name not in own and name not in NUMBERS:
            options = ["lr", "batch", *(["replay"] if kind.replay else []), *own]
            raise InputError(
                f"{kind.title} has no hyper-parameter {name!r} (it has: "
                f"{', '.join(f'--{option}' for option in options)})"
            )
