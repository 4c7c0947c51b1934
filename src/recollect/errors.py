"""The errors that recollect raises on purpose; each message is for the person who reads it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "DataError",
    "DivergedError",
    "InputError",
    "MissingExtraError",
    "RecollectError",
    "unknown_name",
]


class RecollectError(Exception):
    """What went wrong, what was expected and what to do, in one sentence."""


class InputError(RecollectError, ValueError):
    """An argument or an array that cannot be used; nothing has been changed."""


class DataError(RecollectError):
    """A data set that cannot be found, or whose files are not what they should be."""


class DivergedError(RecollectError, ArithmeticError):
    """A step whose loss or weights are not finite; nothing has been changed."""


class MissingExtraError(RecollectError, ImportError):
    """A library that is not installed, and the extra of recollect that brings it."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> InputError:
    """The error for a name that does not exist, with the nearest one that does.

    >>> str(unknown_name("method", "der++", ["der", "derpp", "er"]))
    "unknown method 'der++': did you mean 'der'? (known: der, derpp, er)"
    """
    names = sorted(known)
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return InputError(f"unknown {kind} {name!r}: {hint}(known: {', '.join(names)})")
