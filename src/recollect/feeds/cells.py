"""Detect the type of a single cell, and convert numbers and labels."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from recollect.feeds.record import Label, Malformed

LARGEST = float(np.finfo(np.float32).max)
# Words that mean "missing", in any case. A category cannot have one of these names.
MISSING = frozenset({"", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", "?"})
TRUTH = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
TIME = re.compile(
    r"(\d{4}([-/.])\d\d?\2\d\d?|\d\d?-\d\d?-\d{4}|\d\d?[./]\d\d?[./]\d{2,4})([t ].*)?"
    r"|\d\d?:\d\d(:.*)?"
)  # of text in lower case
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
        if untyped and is_number(value):
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


def is_number(text: str) -> bool:
    """Return whether a text reads as a number; 3_47 is a code, although Python reads it as 347."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def numbers(values: Any, shape: Sequence[int] | None = None) -> NDArray[np.float32]:
    """Convert numbers to float32; raise `Malformed` on overflow, NaN or a wrong shape.

    >>> numbers([1, 2.5])
    array([1. , 2.5], dtype=float32)
    """
    try:
        wide = np.asarray(values, dtype=np.float64)
    except OverflowError:
        raise Malformed("a number is too large") from None
    except (TypeError, ValueError):
        raise Malformed("its features are not numbers, or their lists differ in length") from None
    # A comparison with NaN is false, so one test covers overflow and NaN. The sum of squares is a
    # fast test that all but extreme rows pass.
    if not np.vdot(wide, wide) <= LARGEST and not bool((np.abs(wide) <= LARGEST).all()):
        raise Malformed("a feature is not a finite 32-bit number")
    if shape is not None and wide.shape != tuple(shape):
        raise Malformed(f"its features have the shape {[*wide.shape]}, not {[*shape]}")
    return wide.astype(np.float32)


def plain_label(value: Any) -> Label | None:
    """Return a label as text or a number, 3.0 as 3; None if it is missing.

    A list of labels becomes a tuple.

    >>> plain_label(3.0), plain_label("b"), plain_label(""), plain_label(float("nan"))
    (3, 'b', None, None)
    >>> plain_label(["red", "round"])
    ('red', 'round')
    """
    if isinstance(value, list):
        found = [plain_label(each) for each in value]
        plain = tuple(each for each in found if each is not None and not isinstance(each, tuple))
        if len(plain) < len(found):
            raise Malformed(f"a list of labels must have text and numbers, not {value!r:.40}")
        return plain
    if value is None or value == "" or value != value:  # NaN marks a missing cell
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise Malformed(f"a label must be text or a number, not {value!r:.40}")
