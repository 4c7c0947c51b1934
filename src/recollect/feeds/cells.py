"""Detect the type of a single cell: number, boolean, text, time, list or missing value."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Literal

import numpy as np

__all__ = ["LARGEST", "as_text", "as_truth", "is_missing", "kind_of", "leaves"]

LARGEST = float(np.finfo(np.float32).max)
# Words that mean "missing", in any case. A category cannot have one of these names.
MISSING = frozenset({"", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", "?"})
TRUTH = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
TIME = re.compile(r"\d{4}-\d\d?-\d\d?([T ].*)?|\d\d?[./]\d\d?[./]\d{2,4}( .*)?|\d\d?:\d\d(:.*)?")
TIMES = (datetime.date, datetime.time, datetime.timedelta)
MOST_LETTERS = 100  # longer category names are truncated

Kind = Literal["missing", "number", "boolean", "text", "time", "list", "nested"]


def is_missing(value: Any) -> bool:
    """Return whether a value is missing: None, NaN, or a word such as "NA" or "null".

    >>> is_missing(" NA "), is_missing(None), is_missing(float("nan")), is_missing("0")
    (True, True, True, False)
    """
    if isinstance(value, str):
        return value.strip().lower() in MISSING
    return value is None or (isinstance(value, float) and math.isnan(value))


def kind_of(value: Any, untyped: bool) -> Kind:
    """Return the kind of a value; with `untyped`, numeric text counts as a number.

    >>> kind_of("1.5", True), kind_of("1.5", False), kind_of("yes", True), kind_of("9:30", True)
    ('number', 'text', 'boolean', 'time')
    """
    if isinstance(value, str):
        if untyped and _reads_as_number(value):
            return "missing" if is_missing(value) else "number"
        word = value.strip().lower()
        if word in MISSING:
            return "missing"
        if word in TRUTH:
            return "boolean"
        return "time" if TIME.fullmatch(word) else "text"
    if is_missing(value):
        return "missing"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float | Decimal):
        return "number"
    if isinstance(value, TIMES):
        return "time"
    if isinstance(value, list):
        numeric = value and all(isinstance(leaf, bool | int | float) for leaf in leaves(value))
        return "list" if numeric else "nested"
    return "nested"


def as_truth(value: Any) -> float | None:
    """Convert a cell of a boolean column to 1.0 or 0.0; None if it is not a boolean."""
    if isinstance(value, str):
        return TRUTH.get(value.strip().lower(), {"1": 1.0, "0": 0.0}.get(value.strip()))
    return float(value) if isinstance(value, bool | int) and value in (0, 1) else None


def as_text(value: Any) -> str:
    """Return the category name of a value; 3 and 3.0 are the same category.

    >>> as_text(" red"), as_text(3.0), as_text(True)
    ('red', '3', 'true')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()[:MOST_LETTERS]


def leaves(value: Any) -> Iterator[Any]:
    """Iterate over the values of nested lists, depth first."""
    if isinstance(value, list):
        for part in value:
            yield from leaves(part)
    else:
        yield value


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
