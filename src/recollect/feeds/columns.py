"""Which columns of a table are the label and the features."""

from __future__ import annotations

from collections.abc import Sequence

from recollect.errors import InputError

__all__ = ["column", "features_of"]


def column(wanted: str, names: Sequence[str]) -> int:
    """The index of a column, given by name or by number: 1 is the first, -1 the last.

    >>> column("kind", ["speed", "kind"]), column("1", ["speed", "kind"])
    (1, 0)
    >>> column("sort", ["speed", "kind"])
    Traceback (most recent call last):
    recollect.errors.InputError: there is no column 'sort' (columns: speed, kind)
    """
    if names.count(wanted) > 1:
        raise InputError(f"there are several columns {wanted!r}: give its number, from 1 on")
    if wanted in names:
        return names.index(wanted)
    digits = wanted.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) < 10:
        number = int(wanted)
        if 1 <= abs(number) <= len(names):
            return number % len(names) if number < 0 else number - 1
    few = [*names[:12], "..."] if len(names) > 12 else names
    raise InputError(f"there is no column {wanted!r} (columns: {', '.join(few)})")


def features_of(
    names: Sequence[str], label: int, features: Sequence[str], ignore: Sequence[str]
) -> list[int]:
    """Where the features are: those given, or all but the label and what is to be ignored.

    >>> features_of(["time", "speed", "kind"], 2, [], ["time"])
    [1]
    """
    ignored = {label, *(column(name, names) for name in ignore)}
    chosen = [column(name, names) for name in features] or range(len(names))
    left = [number for number in chosen if number not in ignored]
    if len(set(left)) != len(left):
        raise InputError("a feature is given twice")
    if not left:
        raise InputError(
            f"there are no features besides the label {names[label]!r} "
            f"(columns: {', '.join(names)}): is it the right delimiter, and the right label?"
        )
    return left
