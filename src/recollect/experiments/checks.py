"""Predicates that validate JSON values read from files."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

WIDEST = 2**63  # limit of integers in SQLite columns

Check = Callable[[Any], bool]


def text(value: Any) -> bool:
    """Check for a string that can be encoded: JSON also allows lone surrogates."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def whole(least: int) -> Check:
    """Return a check for an integer of at least `least`."""
    return lambda value: (
        isinstance(value, int) and not isinstance(value, bool) and least <= value < WIDEST
    )


def number(value: Any) -> bool:
    """Check for a finite number; JSON also allows integers of any length."""
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < WIDEST
    return isinstance(value, float) and math.isfinite(value)


def between(low: float, high: float) -> Check:
    """Return a check for a number from `low` to `high`.

    >>> between(0, 100)(50.0), between(0, 100)(True), between(0, 100)(float("nan"))
    (True, False, False)
    """
    return lambda value: number(value) and low <= value <= high


def or_null(good: Check) -> Check:
    """Return a check that also accepts null."""
    return lambda value: value is None or good(value)


def object_of(good: Check) -> Check:
    """Return a check for an object whose values all pass `good`."""
    return lambda value: (
        isinstance(value, dict) and all(text(key) and good(each) for key, each in value.items())
    )


def list_of(good: Check) -> Check:
    """Return a check for a non-empty list whose entries all pass `good`."""
    return lambda value: isinstance(value, list) and len(value) > 0 and all(map(good, value))
