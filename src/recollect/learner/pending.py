"""Predictions that wait for their labels: examples, answers, and what became of ids."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from recollect.core.packing import Packing
from recollect.learner.ids import listed_ids, plain_id
from recollect.learner.labels import decoded, encoded

__all__ = ["Batch", "Kept", "Labelled", "Pending", "Sorted", "ids_of"]

PAST = 10  # so many times more ids than predictions are remembered
LABELLED, EXPIRED, UNKNOWN = "labelled", "expired", "unknown"


@final
@dataclass(frozen=True)
class Labelled:
    """What became of labels that arrived late, as `Learner.label` returns it.

    `learned` is the number of examples of the step and `loss` its loss, NaN if there was none.
    `left_out` could not be trusted (`on_outlier`). Ids that were ignored: `repeated` ones have
    their label already, `expired` ones waited too long or had to make room, and `unknown` ones
    were never predicted, or too long ago.

    >>> Labelled(learned=2, loss=0.5).ignored
    ()
    """

    learned: int
    loss: float
    left_out: int = 0
    repeated: tuple[Hashable, ...] = ()
    expired: tuple[Hashable, ...] = ()
    unknown: tuple[Hashable, ...] = ()

    @property
    def ignored(self) -> tuple[Hashable, ...]:
        """All ids whose labels were not used."""
        return self.repeated + self.expired + self.unknown


class Kept(NamedTuple):
    """An example `[...]` as it arrived, the label that was predicted for it, and when.

    One of several tensors is a row of a packing.
    """

    x: Tensor
    answer: Hashable
    time: float
    packing: Packing | None = None


class Sorted(NamedTuple):
    """The rows of a call whose labels are learned, and the ids of the others."""

    rows: list[int]
    repeated: tuple[Hashable, ...]
    expired: tuple[Hashable, ...]
    unknown: tuple[Hashable, ...]


class Batch(NamedTuple):
    """Label number `number` of a journal: examples `[n, ...]`, their labels and the answers."""

    number: int
    ids: list[Hashable]
    x: Tensor
    labels: list[Hashable]
    answers: list[Hashable]
    packing: Packing | None = None


@final
class Pending:
    """At most `most` predictions without a label, the oldest first; none older than `expires`.

    It remembers what became of the last `PAST * most` ids. All of it follows from what was kept
    and taken, and at which times, and so from the journal.
    """

    def __init__(self, most: int, expires: float | None) -> None:
        self._most, self._expires = most, expires
        self._kept: dict[Hashable, Kept] = {}
        self._past: dict[Hashable, str] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def first(self) -> Kept | None:
        """What waits the longest, if there is something."""
        return next(iter(self._kept.values())) if self._kept else None

    def new(self, ids: Sequence[Hashable]) -> list[int]:
        """The rows of a batch whose ids have no label yet."""
        return [row for row, each in enumerate(ids) if self._past.get(each) != LABELLED]

    def keep(
        self, ids: Sequence[Hashable], x: Tensor, answers: Sequence[Hashable], time: float,
        packing: Packing | None = None,
    ) -> None:  # fmt: skip
        """Keep a batch `[n, ...]`; an id that waits already gets the new example and answer."""
        first, kind = self.first(), (x.shape[1:], x.dtype, packing)
        if first is not None and (first.x.shape, first.x.dtype, first.packing) != kind:
            self._kept.clear()  # they can never be learned: a learner has one kind of examples
        for each, row, answer in zip(ids, x, answers, strict=True):
            self._kept.pop(each, None)
            self._past.pop(each, None)
            self._kept[each] = Kept(row.clone(), answer, time, packing)
        surplus = list(islice(self._kept, max(0, len(self._kept) - self._most)))
        for each in surplus:
            self._drop(each, EXPIRED)
        while self._kept and self._late(next(iter(self._kept.values())), time):
            self._drop(next(iter(self._kept)), EXPIRED)

    def sorted(self, ids: Sequence[Hashable], time: float) -> Sorted:
        """Which of the ids wait for a label at this time."""
        rows: dict[Hashable, int] = {}
        others: dict[str, list[Hashable]] = {LABELLED: [], EXPIRED: [], UNKNOWN: []}
        for row, each in enumerate(ids):
            if each in rows:
                others[LABELLED].append(each)
            elif each not in self._kept:
                others[self._past.get(each, UNKNOWN)].append(each)
            elif self._late(self._kept[each], time):
                others[EXPIRED].append(each)
            else:
                rows[each] = row
        repeated, expired, unknown = (tuple(found) for found in others.values())
        return Sorted(list(rows.values()), repeated, expired, unknown)

    def batch(self, number: int, ids: list[Hashable], labels: list[Hashable]) -> Batch:
        """The examples with these ids, which wait, and their labels."""
        kept = [self._kept[each] for each in ids]
        x = torch.stack([each.x for each in kept])
        return Batch(number, ids, x, labels, [each.answer for each in kept], kept[0].packing)

    def take(self, ids: Iterable[Hashable]) -> None:
        """These have their labels now."""
        for each in ids:
            self._drop(each, LABELLED)

    def forget(self, ids: Iterable[Hashable]) -> set[Hashable]:
        """Remove examples and all that is known of their ids; those that waited."""
        found = set(ids) & self._kept.keys()
        for each in ids:
            self._kept.pop(each, None)
            self._past.pop(each, None)
        return found

    def _late(self, kept: Kept, time: float) -> bool:
        return self._expires is not None and time - kept.time > self._expires

    def _drop(self, each: Hashable, why: str) -> None:
        self._kept.pop(each, None)
        self._past.pop(each, None)
        self._past[each] = why
        if len(self._past) > PAST * self._most:
            del self._past[next(iter(self._past))]

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """All of it as plain data and tensors."""
        kept = self._kept.values()
        facts: dict[str, Any] = {
            "most": self._most,
            "expires": self._expires,
            "ids": [encoded(each) for each in self._kept],
            "answers": [encoded(each.answer) for each in kept],
            "times": [each.time for each in kept],
            # In their order: the oldest are forgotten first.
            "past": [[encoded(each), why] for each, why in self._past.items()],
        }
        first = self.first()
        if first is not None and first.packing is not None:
            facts["packing"] = first.packing.plain()
        return facts, {"x": torch.stack([each.x for each in kept])} if kept else {}

    @classmethod
    def restored(cls, facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Pending:
        """What `state` returned."""
        found = cls(facts["most"], facts["expires"])
        found._past = {decoded(each): why for each, why in facts["past"]}
        rows, packing = zip(facts["ids"], facts["answers"], facts["times"], strict=True), None
        if "packing" in facts:
            packing = Packing.restored(facts["packing"])
        for row, (each, answer, time) in enumerate(rows):
            x = tensors["x"][row].clone()
            found._kept[decoded(each)] = Kept(x, decoded(answer), time, packing)
        return found


def ids_of(ids: Any) -> tuple[list[Hashable], bool]:
    """The ids, and whether they are those of a batch: a list, a tuple, an array or a tensor.

    >>> ids_of("a"), ids_of([1, 2])
    ((['a'], False), ([1, 2], True))
    """
    listed = listed_ids(ids)
    return [plain_id(each) for each in ([ids] if listed is None else listed)], listed is not None
