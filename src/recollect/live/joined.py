"""Learn labels from a separate feed, matched by id with predictions, whichever arrives first."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, final

from torch import Tensor

from recollect.errors import InputError
from recollect.feeds import Feed, Record
from recollect.feeds.record import Position
from recollect.learner import Learner
from recollect.learner.late.pending import Batch, Pending
from recollect.learner.targets.labels import decoded, encoded
from recollect.live.batches import Source
from recollect.live.rows import StreamRow, checked_label

PENDING = "pending.x"
NOW = 0.0  # predictions never expire by age: files do not say when a row was written
PATIENCE = 2  # an early label is given up after `PATIENCE * most` other labels were learned


class LabelCounts(NamedTuple):
    """Counts of the labels that were matched by id.

    Attributes:
        waiting: Predictions that have no label yet.
        early: Labels whose examples have not been read yet.
        learned: Labels that were learned.
        repeated: Labels that were ignored because their id already had one.
        expired: Labels whose prediction was dropped because more than `pending` were waiting.
        unknown: Labels that were given up because no example with their id was read.

    >>> LabelCounts(waiting=3, learned=2).repeated
    0
    """

    waiting: int = 0
    early: int = 0
    learned: int = 0
    repeated: int = 0
    expired: int = 0
    unknown: int = 0


class Matched(NamedTuple):
    """The labels of a batch: those to learn now (or None), early ones, and counts of the others."""

    batch: Batch | None
    early: dict[str, Hashable]
    repeated: int
    expired: int


@final
class Joined:
    """Store at most `most` predictions without labels, and about as many labels without examples.

    `look_up` changes nothing, and `settle` records the labels after they were learned, so that a
    failed step leaves the state unchanged.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._pending = Pending(most, None)
        # By id: a label without a prediction, and the number of labels learned when it was read.
        self._early: dict[str, tuple[Hashable, int]] = {}
        self._learned = self._repeated = self._expired = self._unknown = 0

    @property
    def counts(self) -> LabelCounts:
        """The counts so far."""
        return LabelCounts(
            len(self._pending), len(self._early), self._learned, self._repeated, self._expired,
            self._unknown,
        )  # fmt: skip

    @property
    def full(self) -> bool:
        """Whether the number of labels without predictions has reached its limit."""
        return len(self._early) >= self._most

    def early(self, keys: Sequence[str | None]) -> list[Hashable]:
        """Return the labels that arrived before the examples with these ids; None for others."""
        first: set[str | None] = set()
        labels: list[Hashable] = []
        for key in keys:
            found = self._early.get(key) if key is not None and key not in first else None
            labels.append(found and found[0])
            first.add(key)
        return labels

    def predicted(
        self,
        keys: Sequence[str | None],
        x: Tensor,
        answers: Sequence[Hashable],
        own: Sequence[Hashable],
        early: Sequence[Hashable],
    ) -> None:
        """Record a predicted batch `[n, ...]`; rows with an `own` or `early` label were learned.

        The other rows wait for their labels.
        """
        for row, key in enumerate(keys):
            if key is None:
                continue
            if own[row] is not None:
                self._repeated += self._early.pop(key, None) is not None
                self._pending.mark_labelled([key])
            elif early[row] is not None:
                del self._early[key]
                self._pending.mark_labelled([key])
                self._learned += 1
            elif self._pending.unlabelled([key]):
                self._pending.add([key], x[row : row + 1], [answers[row]], NOW)
        self._give_up(len(self._early))

    def look_up(self, rows: Sequence[tuple[str, Hashable]]) -> Matched:
        """Return which of the labels can be learned now; this changes nothing."""
        keys = [key for key, _ in rows]
        found = self._pending.sort(keys, NOW)
        batch = None
        if found.rows:
            labels = [rows[row][1] for row in found.rows]
            batch = self._pending.batch(0, [keys[row] for row in found.rows], labels)
        first = dict(reversed(rows))
        early = {str(key): first[str(key)] for key in found.unknown if key not in self._early}
        again = len(found.unknown) - len(early)
        return Matched(batch, early, len(found.repeated) + again, len(found.expired))

    def settle(self, matched: Matched) -> None:
        """Record that these labels were learned, and count the others."""
        if matched.batch is not None:
            self._pending.mark_labelled(matched.batch.ids)
            self._learned += len(matched.batch.ids)
        self._repeated += matched.repeated
        self._expired += matched.expired
        self._early |= {key: (label, self._learned) for key, label in matched.early.items()}
        self._give_up(self._most + len(matched.early))

    def forget(self, keys: Sequence[str]) -> set[Hashable]:
        """Remove the examples and labels that wait under these ids; return the ids found."""
        found = {key for key in keys if self._early.pop(key, None) is not None}
        return found | self._pending.forget(keys)

    def _give_up(self, most: int) -> None:
        """Give up labels without predictions: old ones, and the oldest of more than `most`.

        A label is old once `PATIENCE` times the limit of other labels have been learned since.
        """
        while self._early:
            key, (_, learned) = next(iter(self._early.items()))
            waited = self._learned - learned
            if len(self._early) <= most and waited < PATIENCE * self._most:
                break
            del self._early[key]
            self._unknown += 1

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return the state as plain data and tensors."""
        pending, tensors = self._pending.state()
        early = [[key, encoded(label), at] for key, (label, at) in self._early.items()]
        counts = [self._learned, self._repeated, self._expired, self._unknown]
        return {"pending": pending, "early": early, "counts": counts}, tensors

    @classmethod
    def restored(cls, facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Joined:
        """Restore what `state` returned."""
        found = cls(facts["pending"]["most"])
        found._pending = Pending.restored(facts["pending"], tensors)
        found._early = {key: (decoded(label), at) for key, label, at in facts["early"]}
        found._learned, found._repeated, found._expired, found._unknown = facts["counts"]
        return found


@final
class LateLabels:
    """A feed of labels, its positions, and the examples and labels that wait for each other."""

    def __init__(self, feed: Feed, most: int) -> None:
        self.feed, self.joined = feed, Joined(most)
        self.positions: dict[str, Position] = {}
        self._skipped = 0

    def source(self, size: int, requests: Source, learner: Callable[[], Learner | None]) -> Source:
        """Return the batches of labels; raise `InputError` at once if a column does not exist.

        None are read before there is a `learner()` that has seen a batch of `requests`.
        """

        def take(record: Record, before: int) -> StreamRow | None:
            current = learner()
            assert current is not None
            return checked_label(record, self.feed, current)

        def held() -> bool:  # examples are read first, and if too many labels wait for them
            more = not (requests.ended or requests.waits)
            return learner() is None or (self.joined.full and more)

        found = Source(self.feed, self.positions, size, take, held)
        try:
            found.begin()
        except InputError as error:
            raise InputError(f"the labels in {', '.join(self.feed.sources)}: {error}") from None
        return found

    def learn(
        self,
        batch: Sequence[StreamRow],
        observe: Callable[[Any, list[Hashable], list[Hashable] | None, Sequence[Hashable]], None],
    ) -> None:
        """Learn the labels of waiting examples in one step; metrics use their first predictions."""
        matched = self.joined.look_up([(str(row.key), row.record.label) for row in batch])
        found = matched.batch
        if found is not None:
            observe(found.x, found.labels, found.answers, found.ids)
        self.joined.settle(matched)
        self.positions.update({row.record.source: row.record.position for row in batch})
        self._skipped = batch[-1].skipped

    def notes(self) -> dict[str, Any]:
        """Return the state for the notes of a checkpoint."""
        facts, tensors = self.joined.state()
        noted = {
            "places": dict(self.positions),
            "skipped": self._skipped,
            "layout": self.feed.reader.layout,
            **facts,
        }
        # Examples are tensors, which a checkpoint stores separately from plain data.
        return {"labels": noted, **({PENDING: tensors["x"]} if tensors else {})}

    def continue_from(self, notes: Mapping[str, Any]) -> None:
        """Restore the state that `notes` returned."""
        noted = notes["labels"]
        x: Tensor | None = notes.get(PENDING)
        self.joined = Joined.restored(noted, {} if x is None else {"x": x})
        self.positions = {source: tuple(at) for source, at in noted["places"].items()}
        self.feed.continue_from(noted["layout"], None)
        self._skipped = self.feed.faults.count = noted["skipped"]


def settings_of(labels: Feed | None, most: int) -> dict[str, Any]:
    """Return the settings that a resumed stream must share; None without labels.

    States that were saved before label feeds existed have None too.
    """
    if labels is None:
        return {"labels": None, "labels_format": None, "pending": None}
    return {"labels": True, "labels_format": labels.kind, "pending": most}


def late_labels(feed: Feed, labels: Feed | None, most: int) -> LateLabels | None:
    """Create the label feed of a stream, if any; raise `InputError` if ids cannot be matched."""
    if labels is None:
        return None
    if not feed.has_id:
        raise InputError("labels are matched by id: open the examples with Reading(id='...')")
    if not labels.of_labels:
        raise InputError("labels must be a feed of ids and labels: open it with open_labels")
    if not (feed.lasting or labels.lasting):
        raise InputError(
            "examples and labels cannot both be read from standard input: give a file for one"
        )
    if most < 1:
        raise InputError(f"pending must be at least 1, not {most}")
    return LateLabels(labels, most)
