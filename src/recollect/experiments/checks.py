"""Whether plain data from a file are what they should be, before anything is made of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

__all__ = ["Check", "between", "list_of", "number", "object_of", "or_null", "text", "whole"]

WIDEST = 2**63  # what a store's columns hold

Check = Callable[[Any], bool]


def text(value: Any) -> bool:
    """A text that a file can hold: JSON can also spell halves of characters."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def whole(least: int) -> Check:
    """A whole number from the least one on."""
    return lambda value: (
        isinstance(value, int) and not isinstance(value, bool) and least <= value < WIDEST
    )


def number(value: Any) -> bool:
    """A number that a float can hold: JSON allows whole numbers of any length."""
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < WIDEST
    return isinstance(value, float) and math.isfinite(value)


def between(low: float, high: float) -> Check:
    """A number from low to high.

    >>> between(0, 100)(50.0), between(0, 100)(True), between(0, 100)(float("nan"))
    (True, False, False)
    """
    return lambda value: number(value) and low <= value <= high


def or_null(good: Check) -> Check:
    """Null, or what the check says."""
    return lambda value: value is None or good(value)


def object_of(good: Check) -> Check:
    """An object whose every value is good."""
    return lambda value: (
        isinstance(value, dict) and all(text(key) and good(each) for key, each in value.items())
    )


def list_of(good: Check) -> Check:
    """A list that is not empty, with good entries."""
    return lambda value: isinstance(value, list) and len(value) > 0 and all(map(good, value))
