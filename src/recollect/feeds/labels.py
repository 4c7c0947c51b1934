"""Read labels from separate files, matched to examples by id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from recollect.errors import InputError
from recollect.feeds.feed import Feed, Reading, open_feed
from recollect.feeds.record import Malformed, Record

__all__ = ["key_of", "labels_of", "open_labels"]

LONGEST = 1000


def open_labels(sources: str | Path | Sequence[str | Path], reading: Reading) -> Feed:
    """Open a feed of ids and labels, for the `labels` argument of `LiveStream`.

    `reading.id` names the id column, and `reading.label` the label column; its default is the last
    column, or the key "label" in JSON lines. Other columns are ignored.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "labels.csv"
    ...     _ = path.write_text("request,when,outcome\\nr1,Monday,late\\nr2,Monday,in time\\n")
    ...     feed = open_labels(path, Reading(id="request"))
    ...     [labels_of(record) for record in feed.records() if record]
    [('r1', 'late'), ('r2', 'in time')]
    """
    name = reading.id
    if name is None:
        raise InputError("labels are matched by id: give the id column, as in Reading(id='...')")
    # The id is read as a category and passed through; these rows are not used as features.
    how = replace(
        reading, features=[name], ignore=(), missing="auto", categorical=[name], categories=1,
        drop_text=False, id=None, keep=[name], labelled=True,
    )  # fmt: skip
    feed = open_feed(sources, how)
    if feed.kind == "images":
        raise InputError("labels must be CSV, JSON lines or Parquet, not images")
    return replace(feed, of_labels=True)


def labels_of(record: Record) -> tuple[str, Any]:
    """Return the id and the label of a record; raise `Malformed` if one is missing."""
    key = key_of(*record.kept.values())
    if key is None:
        raise Malformed("it has no id")
    if record.label is None:
        raise Malformed("it has no label")
    return key, record.label


def key_of(value: Any) -> str | None:
    """Convert an id to text, which is compared across file formats; None if it is missing.

    >>> key_of(7), key_of(7.0), key_of("7"), key_of(""), key_of(float("nan"))
    ('7', '7', '7', None, None)
    """
    if value is None or value == "" or value != value:  # NaN marks a missing cell
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, list | dict) or len(str(value)) > LONGEST:
        raise Malformed(f"an id must be a number or a text of at most {LONGEST} characters")
    return str(value)
