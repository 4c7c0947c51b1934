"""Select the label and feature columns of a table, and check numbers and labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect.errors import InputError
from recollect.feeds.cells import LARGEST
from recollect.feeds.record import Label, Malformed

__all__ = ["chosen_columns", "column_of", "numbers", "plain_label"]


def chosen_columns(
    names: Sequence[str],
    label: str | None,
    features: Sequence[str],
    ignore: Sequence[str],
    *,
    labelled: bool = True,
) -> tuple[int | None, list[int]]:
    """Return the index of the label column (None if not `labelled`) and of the feature columns.

    The default label is the last column; the default features are all columns except the label and
    `ignore`. Columns are given by name or by number: 1 is the first, -1 the last.

    >>> chosen_columns(["time", "speed", "kind"], "3", [], ["time"])
    (2, [1])
    >>> chosen_columns(["speed", "kind"], "sort", [], [])
    Traceback (most recent call last):
    recollect.errors.InputError: there is no column 'sort' (columns: speed, kind)
    """
    target = column_of("-1" if label is None else label, names) if labelled else None
    ignored = {target, *(column_of(name, names) for name in ignore)}
    chosen = [column_of(name, names) for name in features] or range(len(names))
    left = [number for number in chosen if number not in ignored]
    if len(set(left)) != len(left):
        raise InputError("the same feature is given twice")
    if not left and target is None:
        raise InputError(f"there are no features (columns: {', '.join(names)})")
    if not left:
        assert target is not None
        raise InputError(
            f"there are no features besides the label {names[target]!r} "
            f"(columns: {', '.join(names)}): check the delimiter and the label"
        )
    return target, left


def column_of(wanted: str, names: Sequence[str]) -> int:
    """Return the index of a column, given by name or by number."""
    if names.count(wanted) > 1:
        raise InputError(f"several columns are named {wanted!r}: give a number, starting at 1")
    if wanted in names:
        return names.index(wanted)
    digits = wanted.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) < 10:
        number = int(wanted)
        if 1 <= abs(number) <= len(names):
            return number % len(names) if number < 0 else number - 1
    few = [*names[:12], "..."] if len(names) > 12 else names
    raise InputError(f"there is no column {wanted!r} (columns: {', '.join(few)})")


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
