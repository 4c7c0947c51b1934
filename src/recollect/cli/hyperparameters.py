"""An option for every hyper-parameter, and what is said about it."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import Any

from recollect.cli.parser import number
from recollect.methods import Hyperparameter, Method, hyperparameters

__all__ = ["add_hyperparameters", "described", "given_values"]


def described(kind: type[Method]) -> dict[str, Hyperparameter]:
    """The hyper-parameters of a method, by the name of their option."""
    return {each.symbol: each for each in hyperparameters(kind).values()}


def add_hyperparameters(
    parser: argparse.ArgumentParser,
    methods: Iterable[type[Method]],
    use: str,
    others: Mapping[str, str],
    **how: Any,
) -> None:
    """Add an option for every hyper-parameter of these methods, and for `others` with their help.

    `how` is passed to argparse.
    """
    titles: dict[str, dict[str, list[str]]] = {}
    for kind in methods:
        for name, each in described(kind).items():
            titles.setdefault(name, {}).setdefault(each.help, []).append(kind.title)
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
        group.add_argument(f"--{name}", type=number, metavar="VALUE", help=text, **how)
    parser.set_defaults(hyperparameters=(*others, *helps))


def given_values(chosen: argparse.Namespace) -> dict[str, Any]:
    """The hyper-parameters that a person gave, by the name of their option."""
    found: Mapping[str, Any] = vars(chosen)
    return {n: found[n] for n in chosen.hyperparameters if found[n] is not None}
