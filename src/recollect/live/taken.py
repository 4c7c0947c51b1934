"""A record that was taken from a feed, and what is written about it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np

from recollect.errors import InputError
from recollect.feeds import Feed, Record
from recollect.feeds.labels import key_of
from recollect.feeds.record import Malformed
from recollect.feeds.table import Moment
from recollect.learner import Learner
from recollect.learner.labels import as_number, no_class
from recollect.live.answers import why_not

__all__ = ["Taken", "line_of", "not_a_class", "predicted", "say_columns", "taken_of"]

OWN = ("n", "id", "source", "line", "file", "label", "predicted", "probability")


class Taken(NamedTuple):
    """A record, its number in the stream, and the state of the feed right after it.

    Rows that were left out count too, so that the number of a record does not depend on them.
    """

    record: Record
    n: int
    skipped: int
    columns: Moment | None
    key: str | None  # the id as text


def taken_of(
    record: Record, feed: Feed, learner: Learner, number: int, *, joined: bool
) -> Taken | None:
    """A record that was just read, if it can be used; `number` counts those that could so far.

    If it is to be `joined` with labels, what it has as an id must be one.
    """
    if joined and learner.target != "class":
        raise InputError(f"labels that come later are classes: target={learner.target!r} is not")
    why, key = not_a_class(learner, record.label, feed.kind), None
    try:
        key = key_of(record.id)
    except Malformed as error:
        why = why or (str(error) if joined else None)
    if why is not None:
        feed.faults.meet(feed.where(record), Malformed(why))
        return None
    skipped = feed.faults.count
    return Taken(record, number + skipped, skipped, feed.now(), key)


def predicted(learner: Learner, x: np.ndarray) -> list[tuple[Any, float | None]]:
    """The most probable class of every example, and how probable it is."""
    if not learner.steps:
        return [(None, None)] * len(x)
    if learner.target == "regression":
        return [(float(value), None) for value in learner.predict(x)]
    if learner.target == "labels":
        return [(sorted(each, key=str), None) for each in learner.predict(x)]
    shares, classes = learner.predict_proba(x), learner.classes
    best = shares.argmax(1)
    return [
        (classes[number], round(float(row[number]), 6))
        for row, number in zip(shares, best, strict=True)
    ]


def line_of(taken: Taken, feed: Feed, guess: tuple[Hashable, float | None]) -> dict[str, Any]:
    """What is written about a record: where it is, what passes through, and what was predicted."""
    record = taken.record
    place = "file" if feed.kind == "images" else "line"
    return {
        "n": taken.n,
        **({"id": record.id} if feed.has_id else {}),
        **({"source": record.source} if len(feed.sources) > 1 else {}),
        place: record.position[-1],
        **{name if name not in OWN else f"{name}_": kept for name, kept in record.kept.items()},
        "label": record.label,
        "predicted": guess[0],
        "probability": guess[1],
    }


def say_columns(feed: Feed, say: Callable[[str], None]) -> None:
    """Say what is learned from, if it has columns."""
    columns = feed.described()
    if columns is not None:
        say(columns)


def not_a_class(learner: Learner, label: Hashable, kind: str) -> str | None:
    """Why the label in a feed of this kind cannot be learned; None if it can, or if it is None."""
    if label is None or learner.knows(label):
        return None
    if learner.target != "class":
        return why_not(label, learner)
    if learner.fixed_classes:
        return f"the label {label!r} is not among the classes"
    return no_class(as_number(label) if kind == "csv" else label)
