"""The label of a row as the target of a learner: a class, a number, or several labels."""

from __future__ import annotations

import math
from collections.abc import Hashable

from recollect.feeds.record import Malformed
from recollect.learner import Learner

__all__ = ["BETWEEN", "answer_of", "why_not"]

BETWEEN = "|"


def answer_of(label: Hashable, target: str) -> Hashable:
    """What is learned of a row's label: itself, a number, or the labels between `|`.

    >>> answer_of("cat", "class"), answer_of("1.5", "regression")
    ('cat', 1.5)
    >>> sorted(answer_of("red|round", "labels")), answer_of("|", "labels")
    (['red', 'round'], frozenset())
    """
    if target == "class":
        return label
    if target == "labels":
        return frozenset(part.strip() for part in str(label).split(BETWEEN) if part.strip())
    try:
        found = float(str(label))
    except ValueError:
        raise Malformed(f"the label {label!r:.60} is not a number") from None
    if not math.isfinite(found):
        raise Malformed(f"the label {label!r:.60} is not a finite number")
    return found


def why_not(label: Hashable, learner: Learner) -> str | None:
    """Why a label cannot be learned as a number or as several labels, or None if it can."""
    try:
        answer = answer_of(label, learner.target)
    except Malformed as why:
        return str(why)
    if isinstance(answer, frozenset) and learner.fixed_classes:
        new = sorted(str(each) for each in answer if not learner.knows(each))
        return f"the label {new[0]!r} is not among the classes" if new else None
    return None
