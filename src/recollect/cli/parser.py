"""Argument parser that suggests corrections for misspelt options."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from recollect.errors import nearest


class Parser(argparse.ArgumentParser):
    """`argparse.ArgumentParser` that suggests the closest option or choice for an unknown one.

    Options must be written in full: `--seed 3` would otherwise be `--seeds 3`, three runs.
    `renamed` has options of other commands and their names in this one.
    """

    renamed: Mapping[str, str] = MappingProxyType({})

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **options})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse known options, and return the remaining words; an unknown option is an error."""
        chosen, left = super().parse_known_args(args, namespace)
        for word in left:
            if re.match("--?[A-Za-z]", word):
                name = word.partition("=")[0]
                near = self.renamed.get(name) or nearest(name, self._option_string_actions)
                self.error(f"unknown option {name}" + (f": did you mean {near}?" if near else ""))
        if left and (option := self._before(left[0], args)):
            self.error(f"{option} takes one value: omit {' '.join(left)}, or run the command for "
                       f"each")  # fmt: skip
        return chosen, left

    def _before(self, word: str, args: Any) -> str | None:
        """Return the option whose value stands directly before a word that nothing takes."""
        words = [*args] if args is not None else []
        if word not in words[2:]:
            return None
        option = words[words.index(word, 2) - 2]
        action = self._option_string_actions.get(option)
        takes_one = action is not None and action.nargs is None and action.type is not None
        return option if takes_one else None

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            near = nearest(str(value), map(str, action.choices or ()))
            if near:
                error.message = f"did you mean {near!r}? {error.message}"
            raise


def number(text: str) -> float:
    """Parse a number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number: give one, or several with spaces between them"
        ) from None


def duration(text: str) -> float:
    """Parse a duration such as 90, 90s, 20m or 2h, and return seconds.

    >>> duration("20m"), duration("90")
    (1200.0, 90.0)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if found is None or float(found[1]) == 0:
        raise argparse.ArgumentTypeError(
            f"cannot parse the time {text!r}: give a duration such as 90s, 20m or 2h"
        )
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]]
