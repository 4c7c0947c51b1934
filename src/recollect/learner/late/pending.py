"""Predictions that wait for a label, and the outcomes of past ids."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from recollect.core.packing import Packing
from recollect.learner.contents.ids import listed_ids, plain_id
from recollect.learner.inputs.examples import Kind
from recollect.learner.targets.labels import decoded, encoded

PAST = 10  # outcomes of ids to remember, as a multiple of the pending predictions
LABELLED, EXPIRED, UNKNOWN = "labelled", "expired", "unknown"


@final
@dataclass(frozen=True)
class Labelled:
    """The result of `Learner.label`: how many labels were learned, and which were ignored.

    Attributes:
        learned: The number of examples that were learned.
        loss: The loss of the step; NaN if there was no step.
        left_out: The number of examples that were left out as outliers (`on_outlier`).
        repeated: Ids that were ignored because they already had a label.
        expired: Ids that were ignored because they waited too long, or had to make room.
        unknown: Ids that were ignored because they were never predicted, or too long ago.
        left_out_ids: The ids of the outliers.

    >>> Labelled(learned=2, loss=0.5).ignored
    ()
    """

    learned: int
    loss: float
    left_out: int = 0
    repeated: tuple[Hashable, ...] = ()
    expired: tuple[Hashable, ...] = ()
    unknown: tuple[Hashable, ...] = ()
    left_out_ids: tuple[Hashable, ...] = ()

    @property
    def ignored(self) -> tuple[Hashable, ...]:
        """All ids whose labels were ignored."""
        return self.repeated + self.expired + self.unknown


class PendingPrediction(NamedTuple):
    """An unprocessed example `[...]`, the label predicted for it, and the time of the prediction.

    An example of several tensors is packed into one.
    """

    x: Tensor
    answer: Hashable
    time: float
    packing: Packing | None = None

    @property
    def kind(self) -> Kind:
        """The shape and type of the example."""
        return Kind(tuple(self.x.shape), self.x.dtype, packing=self.packing)


class SortedIds(NamedTuple):
    """The rows of a call whose labels are to be learned, and the ids of the others."""

    rows: list[int]
    repeated: tuple[Hashable, ...]
    expired: tuple[Hashable, ...]
    unknown: tuple[Hashable, ...]


class Batch(NamedTuple):
    """The labels of call `number` in a journal: examples `[n, ...]`, labels and predictions."""

    number: int
    ids: list[Hashable]
    x: Tensor
    labels: list[Hashable]
    answers: list[Hashable]
    packing: Packing | None = None


@final
class Pending:
    """Store at most `most` predictions without a label, and none older than `expires` seconds.

    It also stores the outcomes of the last `PAST * most` ids. Its state depends only on the calls
    and the times passed to them, so that the journal can restore it.
    """

    def __init__(self, most: int, expires: float | None) -> None:
        self._most, self._expires = most, expires
        self._waiting: dict[Hashable, PendingPrediction] = {}
        self._past: dict[Hashable, str] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def oldest(self) -> PendingPrediction | None:
        """Return the oldest prediction, if any."""
        return next(iter(self._waiting.values())) if self._waiting else None

    def unlabelled(self, ids: Sequence[Hashable]) -> list[int]:
        """Return the rows of a batch whose ids have no label yet."""
        return [row for row, each in enumerate(ids) if self._past.get(each) != LABELLED]

    def add(
        self, ids: Sequence[Hashable], x: Tensor, answers: Sequence[Hashable], time: float,
        packing: Packing | None = None,
    ) -> None:  # fmt: skip
        """Store a batch `[n, ...]`; a pending id gets the new example and prediction."""
        first, kind = self.oldest(), (x.shape[1:], x.dtype, packing)
        if first is not None and (first.x.shape, first.x.dtype, first.packing) != kind:
            self._waiting.clear()  # a learner has one kind of example: these can never be learned
        for each, row, answer in zip(ids, x, answers, strict=True):
            self._waiting.pop(each, None)
            self._past.pop(each, None)
            self._waiting[each] = PendingPrediction(row.clone(), answer, time, packing)
        surplus = list(islice(self._waiting, max(0, len(self._waiting) - self._most)))
        for each in surplus:
            self._drop(each, EXPIRED)
        while self._waiting and self._is_expired(next(iter(self._waiting.values())), time):
            self._drop(next(iter(self._waiting)), EXPIRED)

    def sort(self, ids: Sequence[Hashable], time: float) -> SortedIds:
        """Sort ids by whether they wait for a label at this time, and if not, why."""
        rows: dict[Hashable, int] = {}
        others: dict[str, list[Hashable]] = {LABELLED: [], EXPIRED: [], UNKNOWN: []}
        for row, each in enumerate(ids):
            if each in rows:
                others[LABELLED].append(each)
            elif each not in self._waiting:
                others[self._past.get(each, UNKNOWN)].append(each)
            elif self._is_expired(self._waiting[each], time):
                others[EXPIRED].append(each)
            else:
                rows[each] = row
        repeated, expired, unknown = (tuple(found) for found in others.values())
        return SortedIds(list(rows.values()), repeated, expired, unknown)

    def batch(self, number: int, ids: list[Hashable], labels: list[Hashable]) -> Batch:
        """Return the pending examples with these ids, and their labels, as a batch."""
        found = [self._waiting[each] for each in ids]
        x = torch.stack([each.x for each in found])
        return Batch(number, ids, x, labels, [each.answer for each in found], found[0].packing)

    def mark_labelled(self, ids: Iterable[Hashable]) -> None:
        """Remove ids that have got their labels."""
        for each in ids:
            self._drop(each, LABELLED)

    def forget(self, ids: Iterable[Hashable]) -> set[Hashable]:
        """Remove examples and the outcomes of their ids; return the ids that were pending."""
        found = set(ids) & self._waiting.keys()
        for each in ids:
            self._waiting.pop(each, None)
            self._past.pop(each, None)
        return found

    def _is_expired(self, found: PendingPrediction, time: float) -> bool:
        return self._expires is not None and time - found.time > self._expires

    def _drop(self, each: Hashable, why: str) -> None:
        self._waiting.pop(each, None)
        self._past.pop(each, None)
        self._past[each] = why
        if len(self._past) > PAST * self._most:
            del self._past[next(iter(self._past))]

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return the state as plain data and tensors."""
        found = self._waiting.values()
        facts: dict[str, Any] = {
            "most": self._most,
            "expires": self._expires,
            "ids": [encoded(each) for each in self._waiting],
            "answers": [encoded(each.answer) for each in found],
            "times": [each.time for each in found],
            # In order: the oldest are removed first.
            "past": [[encoded(each), why] for each, why in self._past.items()],
        }
        first = self.oldest()
        if first is not None and first.packing is not None:
            facts["packing"] = first.packing.plain()
        return facts, {"x": torch.stack([each.x for each in found])} if found else {}

    @classmethod
    def restored(cls, facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Pending:
        """Restore what `state` returned."""
        found = cls(facts["most"], facts["expires"])
        found._past = {decoded(each): why for each, why in facts["past"]}
        rows, packing = zip(facts["ids"], facts["answers"], facts["times"], strict=True), None
        if "packing" in facts:
            packing = Packing.restored(facts["packing"])
        for row, (each, answer, time) in enumerate(rows):
            x = tensors["x"][row].clone()
            found._waiting[decoded(each)] = PendingPrediction(x, decoded(answer), time, packing)
        return found


def ids_of(ids: Any) -> tuple[list[Hashable], bool]:
    """Return the ids, and whether they are a batch: a list, a tuple, an array or a tensor.

    >>> ids_of("a"), ids_of([1, 2])
    ((['a'], False), ([1, 2], True))
    """
    listed = listed_ids(ids)
    return [plain_id(each) for each in ([ids] if listed is None else listed)], listed is not None
