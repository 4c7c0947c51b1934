"""Match predictions and labels by id, whichever arrives first."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple, final

from torch import Tensor

from recollect.learner.late.pending import Batch, Pending
from recollect.learner.targets.labels import decoded, encoded

__all__ = ["Joined", "LabelCounts", "Matched"]

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
