"""Predictions that wait for their labels by id, and labels that wait for their predictions."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple, final

from torch import Tensor

from recollect.learner.labels import decoded, encoded
from recollect.learner.pending import Batch, Pending

__all__ = ["Joined", "LabelCounts", "Matched"]

NOW = 0.0  # what waits goes by number, not by time: a file does not say when a row was written
PATIENCE = 2


class LabelCounts(NamedTuple):
    """What became of labels by id so far.

    `waiting` predictions have no label yet, and `early` labels no prediction. Of the others,
    `learned` have been, `repeated` ones came for an id that had its label, `expired` ones for a
    prediction that had to make room, and `unknown` ones for an id that did not come.

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
    """Rows of labels: those to learn (None if there are none), and what becomes of the others."""

    batch: Batch | None
    early: dict[str, Hashable]
    repeated: int
    expired: int


@final
class Joined:
    """At most `most` predictions wait for their labels, and about as many labels for predictions.

    What is looked up changes nothing; what was learned is then settled. So a step that fails
    leaves all as it was.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._pending = Pending(most, None)
        # The label of an id that has not come, and how many had been learned when it was read.
        self._early: dict[str, tuple[Hashable, int]] = {}
        self._learned = self._repeated = self._expired = self._unknown = 0

    @property
    def counts(self) -> LabelCounts:
        """What became of the labels so far."""
        return LabelCounts(
            len(self._pending), len(self._early), self._learned, self._repeated, self._expired,
            self._unknown,
        )  # fmt: skip

    @property
    def full(self) -> bool:
        """Whether as many labels as may do so wait for their predictions."""
        return len(self._early) >= self._most

    def early(self, keys: Sequence[str | None]) -> list[Hashable]:
        """The labels that came before the predictions with these ids; None where none did."""
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
        """A batch `[n, ...]` was predicted, and what has a label (`own` or `early`) learned."""
        for row, key in enumerate(keys):
            if key is None:
                continue
            if own[row] is not None:
                self._repeated += self._early.pop(key, None) is not None
                self._pending.take([key])
            elif early[row] is not None:
                del self._early[key]
                self._pending.take([key])
                self._learned += 1
            elif self._pending.new([key]):
                self._pending.keep([key], x[row : row + 1], [answers[row]], NOW)
        self._give_up(len(self._early))

    def look_up(self, rows: Sequence[tuple[str, Hashable]]) -> Matched:
        """Which of the labels can be learned now."""
        keys = [key for key, _ in rows]
        found = self._pending.sorted(keys, NOW)
        batch = None
        if found.rows:
            labels = [rows[row][1] for row in found.rows]
            batch = self._pending.batch(0, [keys[row] for row in found.rows], labels)
        first = dict(reversed(rows))
        early = {str(key): first[str(key)] for key in found.unknown if key not in self._early}
        again = len(found.unknown) - len(early)
        return Matched(batch, early, len(found.repeated) + again, len(found.expired))

    def settle(self, matched: Matched) -> None:
        """These labels were learned, or count as said."""
        if matched.batch is not None:
            self._pending.take(matched.batch.ids)
            self._learned += len(matched.batch.ids)
        self._repeated += matched.repeated
        self._expired += matched.expired
        self._early |= {key: (label, self._learned) for key, label in matched.early.items()}
        self._give_up(self._most + len(matched.early))

    def _give_up(self, most: int) -> None:
        """Forget labels whose predictions do not seem to come.

        Those after which so many others were learned, or the oldest if there is no room.
        """
        while self._early:
            key, (_, learned) = next(iter(self._early.items()))
            waited = self._learned - learned
            if len(self._early) <= most and waited < PATIENCE * self._most:
                break
            del self._early[key]
            self._unknown += 1

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """All of it as plain data and tensors."""
        pending, tensors = self._pending.state()
        early = [[key, encoded(label), at] for key, (label, at) in self._early.items()]
        counts = [self._learned, self._repeated, self._expired, self._unknown]
        return {"pending": pending, "early": early, "counts": counts}, tensors

    @classmethod
    def restored(cls, facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Joined:
        """What `state` returned."""
        found = cls(facts["pending"]["most"])
        found._pending = Pending.restored(facts["pending"], tensors)
        found._early = {key: (decoded(label), at) for key, label, at in facts["early"]}
        found._learned, found._repeated, found._expired, found._unknown = facts["counts"]
        return found
