"""Convert the label of a row to a learner's target: a class, a number, or a set of labels."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

from recollect.feeds.record import Malformed
from recollect.learner import Learner
from recollect.learner.targets.values import LARGEST

__all__ = ["BETWEEN", "displayed_label", "target_error", "target_value"]

BETWEEN = "|"


def target_value(label: Hashable, target: str) -> Hashable:
    """Convert a label to a target: unchanged, a number, or the set of labels in a list or text.

    In a text, labels are separated by `|`.

    >>> target_value("cat", "class"), target_value("1.5", "regression")
    ('cat', 1.5)
    >>> sorted(target_value("red|round", "labels")), target_value(("red",), "labels")
    (['red', 'round'], frozenset({'red'}))
    """
    if target == "class":
        return label
    if target == "labels":
        parts = label if isinstance(label, tuple) else str(label).split(BETWEEN)
        return frozenset(part for each in parts if (part := str(each).strip()))
    try:
        found = float(str(label))
    except ValueError:
        raise Malformed(f"the label {label!r:.60} is not a number") from None
    if not math.isfinite(found):
        raise Malformed(f"the label {label!r:.60} is not a finite number")
    if abs(found) > LARGEST:
        raise Malformed(f"the label {label!r:.60} is beyond ±{LARGEST:g}: use other units")
    return found


def displayed_label(label: Hashable, target: str) -> Any:
    """Convert a label to the form in which predictions are written.

    >>> displayed_label("1.5", "regression"), displayed_label("round|red", "labels")
    (1.5, ['red', 'round'])
    >>> print(displayed_label(None, "labels"))
    None
    """
    if label is None or target == "class":
        return label
    answer = target_value(label, target)
    return sorted(answer) if isinstance(answer, frozenset) else answer


def target_error(label: Hashable, learner: Learner) -> str | None:
    """Return why a label is not a valid number or set of labels; None if it is valid."""
    try:
        answer = target_value(label, learner.target)
    except Malformed as why:
        return str(why)
    if isinstance(answer, frozenset) and learner.fixed_classes:
        new = sorted(str(each) for each in answer if not learner.knows(each))
        return f"the label {new[0]!r} is not one of the given classes" if new else None
    return None
