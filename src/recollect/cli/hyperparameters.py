"""Options for the hyper-parameters of methods, and what a person gave for them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from recollect.cli.parser import number
from recollect.methods import Method, hyperparameters

__all__ = ["add_hyperparameters", "given_values"]


def add_hyperparameters(
    parser: argparse.ArgumentParser,
    methods: Mapping[str, type[Method]],
    use: str,
    others: Mapping[str, str],
    **how: Any,
) -> None:
    """Add an option for every hyper-parameter of these methods, and for `others` with their help.

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
        if switches.get(name):  # alone, it is on
            given = {"nargs": "*"} if how.get("nargs") == "+" else {"nargs": "?", "const": 1.0}
        group.add_argument(f"--{name}", type=number, metavar="VALUE", help=text, **given)
    parser.set_defaults(hyperparameters=(*others, *helps))


def given_values(chosen: argparse.Namespace) -> dict[str, Any]:
    """The hyper-parameters that a person gave, by the name of their option."""
    found = {name: getattr(chosen, name) for name in chosen.hyperparameters}
    given = {name: value for name, value in found.items() if value is not None}
    return {name: [1.0] if value == [] else value for name, value in given.items()}
