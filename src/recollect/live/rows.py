"""Check the rows of a live stream and convert their labels; predict them; write predictions."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from recollect.errors import InputError
from recollect.feeds import Feed, Record
from recollect.feeds.feed import key_of, labels_of
from recollect.feeds.record import Malformed
from recollect.feeds.table import TableState
from recollect.learner import Learner
from recollect.learner.inputs.outliers import RefusedExample
from recollect.learner.targets.labels import as_number, no_class
from recollect.learner.targets.values import LARGEST

BETWEEN = "|"
OWN = ("n", "id", "source", "line", "file", "label", "predicted", "probability")


class StreamRow(NamedTuple):
    """A record, its number in the stream, and the state of the feed after it.

    Bad rows are numbered too, so that leaving them out does not change the numbers of others. Rows
    of a feed of labels have no number.
    """

    record: Record
    n: int
    skipped: int
    columns: TableState | None
    key: str | None  # the id as text


def checked_row(
    record: Record, feed: Feed, learner: Learner, number: int, *, joined: bool
) -> StreamRow | None:
    """Check a record; None, and a fault, if it is bad. `number` counts the good ones so far.

    If it is to be `joined` with labels, its id must be valid.
    """
    if joined and learner.target != "class":
        raise InputError(
            f"labels from a separate feed must be classes: target={learner.target!r} is not "
            f"supported"
        )
    why, key = label_error(learner, record.label, feed.kind), None
    try:
        key = key_of(record.id)
    except Malformed as error:
        why = why or (str(error) if joined else None)
    if why is not None:
        feed.faults.meet(feed.where(record), Malformed(why))
        return None
    skipped = feed.faults.count
    return StreamRow(record, number + skipped, skipped, feed.now(), key)


def checked_label(record: Record, feed: Feed, learner: Learner) -> StreamRow | None:
    """Check a record with a label; None, and a fault, if it has no id or no valid label."""
    try:
        key, label = labels_of(record)
        if (why := label_error(learner, label, feed.kind)) is not None:
            raise Malformed(why)
    except Malformed as error:
        feed.faults.meet(feed.where(record), error)
        return None
    return StreamRow(record, 0, feed.faults.count, None, key)


def predict(learner: Learner, x: np.ndarray) -> list[tuple[Any, float | None]]:
    """Predict every example, and the probability of a predicted class (else None)."""
    if not learner.steps:
        return [(None, None)] * len(x)
    if learner.target == "regression":
        return [(float(value), None) for value in learner.predict(x)]
    if learner.target == "labels":
        return [(sorted(each, key=str), None) for each in learner.predict(x)]
    shares, classes = learner.predict_proba(x), learner.classes
    best = shares.argmax(1)
    return [
        (classes[number], round(float(each[number]), 6))
        for each, number in zip(shares, best, strict=True)
    ]


def predicted_before(
    learner: Learner, guesses: Sequence[tuple[Any, float | None]]
) -> list[Hashable] | None:
    """The predictions to count in the metrics; None if the learner has to predict again.

    It does so for sets of labels, since average precision needs the probability of every label.
    """
    if not learner.steps or learner.target == "labels":
        return None
    return [guess for guess, _ in guesses] or None


@contextmanager
def located(feed: Feed, records: Sequence[Record]) -> Iterator[None]:
    """Context in which an `InputError` says where these records were read."""
    try:
        yield
    except RefusedExample as error:
        why = _with_column(error.why, feed)
        raise InputError(f"{feed.where(records[error.row])}: the row {why}") from None
    except InputError as error:
        first, last = feed.where(records[0]), feed.where(records[-1])
        raise InputError(f"{first} to {last}: {error}") from None


def last_outlier(learner: Learner, feed: Feed, records: Sequence[Record]) -> str | None:
    """The place of the last of the observed records that is an outlier, and why it is one."""
    first = learner.arrived - len(records)
    left = [each for each in learner.outliers if each.number >= first]
    if not left:
        return None
    return f"{feed.where(records[left[-1].number - first])}: {_with_column(left[-1].reason, feed)}"


def _with_column(reason: str, feed: Feed) -> str:
    """Replace the index of a feature in a message by the name of its column."""
    table, found = feed.reader.table, re.search(r"\bfeature (\d+)(?= has the magnitude)", reason)
    name = table.column_of(int(found[1])) if found and table else None
    return reason if found is None or name is None else reason.replace(found[0], f"column {name!r}")


def prediction_line(
    row: StreamRow, feed: Feed, prediction: tuple[Hashable, float | None], target: str
) -> dict[str, Any]:
    """Return the line of a prediction: position, columns to pass through, label, prediction."""
    record = row.record
    place = "file" if feed.kind == "images" else "line"
    return {
        "n": row.n,
        **({"id": _plain(record.id)} if feed.has_id else {}),
        **({"source": record.source} if len(feed.sources) > 1 else {}),
        place: feed.place(record),
        **{
            name if name not in OWN else f"{name}_": _plain(kept)
            for name, kept in record.kept.items()
        },
        "label": _displayed(record.label, target),
        "predicted": prediction[0],
        "probability": prediction[1],
    }


def _displayed(label: Hashable, target: str) -> Any:
    """Convert a label to the form in which predictions are written.

    >>> _displayed("1.5", "regression"), _displayed("round|red", "labels")
    (1.5, ['red', 'round'])
    """
    if label is None:
        return None
    answer = target_value(label, target)
    return sorted(answer) if isinstance(answer, frozenset) else answer


def _plain(value: Any) -> Any:
    """Replace numbers that are not finite, which JSON does not support, by None."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    return value


def label_error(learner: Learner, label: Hashable, kind: str) -> str | None:
    """Return why a label of a feed of this kind is not valid; None if it is valid or missing."""
    if label is None or learner.knows(label):
        return None
    if learner.target != "class":
        try:
            answer = target_value(label, learner.target)
        except Malformed as why:
            return str(why)
        if not isinstance(answer, frozenset) or not learner.fixed_classes:
            return None
        new = sorted(str(each) for each in answer if not learner.knows(each))
        return f"the label {new[0]!r} is not one of the given classes" if new else None
    if isinstance(label, tuple):
        return f"a label must be text or a number, not {[*label]!r:.40} (several: target='labels')"
    if learner.fixed_classes:
        return f"the label {label!r} is not one of the given classes"
    return no_class(as_number(label) if kind == "csv" else label)


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
