"""A record that was taken from a feed, and what is written about it."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from recollect.errors import InputError
from recollect.feeds import Feed, Record
from recollect.feeds.table import Moment
from recollect.files import check_writable
from recollect.learner import Learner

__all__ = ["Taken", "line_of", "output_of", "predicted"]

OWN = ("n", "id", "source", "line", "file", "label", "predicted", "probability")


class Taken(NamedTuple):
    """A record, its number in the stream, and the state of the feed right after it.

    Rows that were left out count too, so that the number of a record does not depend on them.
    """

    record: Record
    n: int
    skipped: int
    columns: Moment | None


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


def line_of(
    taken: Taken, feed: Feed, guess: tuple[Hashable, float | None], has_id: bool
) -> dict[str, Any]:
    """What is written about a record: where it is, what passes through, and what was predicted."""
    record = taken.record
    place = "file" if feed.kind == "images" else "line"
    return {
        "n": taken.n,
        **({"id": record.id} if has_id else {}),
        **({"source": record.source} if len(feed.sources) > 1 else {}),
        place: record.position[-1],
        **{name if name not in OWN else f"{name}_": kept for name, kept in record.kept.items()},
        "label": record.label,
        "predicted": guess[0],
        "probability": guess[1],
    }


def output_of(predictions: str | Path | BinaryIO | None, feed: Feed) -> Path | BinaryIO | None:
    """Where predictions go; refused if nothing can be written there, or if it is what is read."""
    if not isinstance(predictions, str | Path):
        return predictions
    path = Path(predictions).absolute()
    check_writable(predictions)
    if str(path) in {str(Path(source).absolute()) for source in feed.sources}:
        raise InputError(f"predictions would overwrite what is read: give another file than {path}")
    return path
