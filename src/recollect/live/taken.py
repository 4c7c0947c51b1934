"""A record that was taken from a feed, and what is written about it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from recollect.errors import InputError
from recollect.feeds import Feed, Record
from recollect.feeds.labels import key_of
from recollect.feeds.record import Malformed
from recollect.feeds.table import Moment
from recollect.files import check_writable
from recollect.learner import Learner
from recollect.learner.labels import as_number, no_class

__all__ = ["Taken", "line_of", "not_a_class", "output_of", "predicted", "taken_of"]

OWN = ("n", "id", "source", "line", "file", "label", "predicted", "probability")


class Taken(NamedTuple):
    """A record, its number in the stream, and the state of the feed right after it.

    Rows that were left out count too, so that the number of a record does not depend on them.
    """

    record: Record
    n: int
    skipped: int
    columns: Moment | None
    key: str | None = None  # the id, by which labels are joined


def taken_of(
    record: Record, feed: Feed, learner: Learner, number: int, *, joined: bool
) -> Taken | None:
    """A record that was just read, if it can be used; `number` counts those that could so far.

    If it is to be joined with labels, its id must be one.
    """
    try:
        why = not_a_class(learner, record.label, feed.kind)
        if why is not None:
            raise Malformed(why)
        key = key_of(record.id) if joined else None
    except Malformed as error:
        feed.faults.meet(feed.where(record), error)
        return None
    skipped = feed.faults.count
    return Taken(record, number + skipped, skipped, feed.now(), key)


def predicted(learner: Learner, x: np.ndarray) -> list[tuple[Hashable, float | None]]:
    """The most probable class of every example, and how probable it is."""
    if not learner.steps:
        return [(None, None)] * len(x)
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


def not_a_class(learner: Learner, label: Hashable, kind: str) -> str | None:
    """Why the label in a feed of this kind cannot be learned; None if it can, or if it is None."""
    if label is None or learner.knows(label):
        return None
    if learner.fixed_classes:
        return f"the label {label!r} is not among the classes"
    return no_class(as_number(label) if kind == "csv" else label)


def output_of(
    predictions: str | Path | BinaryIO | None, feeds: Sequence[Feed]
) -> Path | BinaryIO | None:
    """Where predictions go; refused if nothing can be written there, or if it is what is read."""
    if not isinstance(predictions, str | Path):
        return predictions
    path = Path(predictions).absolute()
    check_writable(predictions)
    if path in {Path(source).absolute() for feed in feeds for source in feed.sources}:
        raise InputError(f"predictions would overwrite what is read: give another file than {path}")
    return path
