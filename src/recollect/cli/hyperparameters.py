"""An option for every hyper-parameter, and what is said about it."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from typing import Any, NamedTuple

from recollect.cli.parser import number
from recollect.methods import Method
from recollect.methods.method import symbol

__all__ = ["Described", "add_hyperparameters", "described", "given_values"]


class Described(NamedTuple):
    """A hyper-parameter of a method: its name, its default if it has one, and a line of help."""

    name: str
    default: float | None
    help: str


def described(kind: type[Method]) -> dict[str, Described]:
    """The hyper-parameters of a method, by the name of their option."""
    return {
        symbol(each.name): Described(
            each.name,
            None if each.default is MISSING else each.default,
            each.metadata.get("help", ""),
        )
        for each in fields(kind)
    }


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
