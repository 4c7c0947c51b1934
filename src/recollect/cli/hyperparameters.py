"""Command-line options for the hyper-parameters of methods."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from recollect.cli.parser import number
from recollect.methods import Method, hyperparameters


def add_hyperparameters(
    parser: argparse.ArgumentParser,
    methods: Mapping[str, type[Method]],
    use: str,
    others: Mapping[str, str],
    **how: Any,
) -> None:
    """Add an option for each hyper-parameter of these methods, and for `others` (name: help).

    `how` is passed to argparse.
    """
    titles: dict[str, dict[str, list[str]]] = {}
    switches: dict[str, bool] = {}
    for kind in methods.values():
        for each in hyperparameters(kind).values():
            titles.setdefault(each.symbol, {}).setdefault(each.help, []).append(kind.title)
            off = each.static and each.default == 0
            switches[each.symbol] = off and switches.get(each.symbol, True)
    helps = {
        name: "; ".join(
            f"{line} ({', '.join(of)})" if line else f"of {', '.join(of)}"
            for line, of in lines.items()
        )
        for name, lines in sorted(titles.items())
    }
    group = parser.add_argument_group("hyper-parameters", use)
    for name, text in {**others, **helps}.items():
        text = text.replace("%", "%%")
        given = {**how}
        if switches.get(name):  # without a value, a switch is on
            given = {"nargs": "*"} if how.get("nargs") == "+" else {"nargs": "?", "const": 1.0}
        group.add_argument(f"--{name}", type=number, metavar="VALUE", help=text, **given)
    parser.set_defaults(hyperparameters=(*others, *helps))


def given_values(chosen: argparse.Namespace) -> dict[str, Any]:
    """Return the hyper-parameters given on the command line, by option name."""
    found = {name: getattr(chosen, name) for name in chosen.hyperparameters}
    given = {name: value for name, value in found.items() if value is not None}
    return {name: [1.0] if value == [] else value for name, value in given.items()}
