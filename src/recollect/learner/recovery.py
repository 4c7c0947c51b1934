"""Read a journal of late labels again, and remove from it what is old or to be forgotten."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor

from recollect.core.packing import Packing
from recollect.learner.journal import SUFFIX, Record, Segment, rewrite, segments_in
from recollect.learner.labels import decoded, encoded
from recollect.learner.pending import Batch, Pending
from recollect.learner.versions import versions_in

__all__ = ["Replay", "forget_in", "kept_record", "labelled_record", "remove_old", "state_record"]

KEPT, LABELLED, STATE = "kept", "labelled", "state"

Pair = tuple[dict[str, Any], dict[str, Tensor]]


def kept_record(
    ids: Sequence[Hashable], x: Tensor, answers: Sequence[Hashable], time: float,
    packing: Packing | None = None,
) -> Pair:  # fmt: skip
    """The record of predictions that wait for their labels, of examples `[n, ...]`."""
    told = {"ids": [encoded(each) for each in ids], "answers": [encoded(each) for each in answers]}
    packed = {"packing": packing.plain()} if packing else {}
    return {"kind": KEPT, **told, "time": time, **packed}, {"x": x}


def labelled_record(batch: Batch, time: float) -> Pair:
    """The record of labels that one step learns from; the examples are in records before."""
    labels = [encoded(each) for each in batch.labels]
    ids = [encoded(each) for each in batch.ids]
    return {"kind": LABELLED, "n": batch.number, "ids": ids, "labels": labels, "time": time}, {}


def state_record(pending: Pending, number: int) -> Pair:
    """The record with which a segment begins: what waits, after so many calls of `label`."""
    facts, tensors = pending.state()
    return {"kind": STATE, "n": number, **facts}, tensors


@final
class Replay:
    """Goes through the journal in a folder, from label number `after` on.

    After `batches`, `pending` is what waited at the journal's end, `number` the number of its last
    label; `segment` and `end` say where that is, and `began` where its first record ends. `start`
    is the label after which the records begin; labels are `missing` if that is later than `after`.
    """

    def __init__(self, folder: Path, after: int) -> None:
        self._segments, self._after = segments_in(folder), after
        self.segment = self._segments[-1] if self._segments else None
        self.began, self.end = 0, 0
        self.number, self.start = after, after
        self.pending = Pending(1, None)
        for place in reversed(range(len(self._segments))):
            self.start = self._segments[place].start().facts["n"]
            if self.start <= after:  # the newest that begins early enough
                self._segments = self._segments[place:]
                break

    @property
    def missing(self) -> bool:
        """Whether labels between `after` and the oldest record have been removed."""
        return self.start > self._after

    def batches(self) -> Iterator[Batch]:
        """What the labels after that number teach, one batch for each step."""
        for segment in self._segments:
            for record in segment.records(last=segment is self.segment):
                self.end = record.end
                batch = self._read(record)
                if batch is not None and batch.number > self._after:
                    yield batch

    def _read(self, record: Record) -> Batch | None:
        facts, tensors, _ = record
        if facts["kind"] == STATE:
            self.pending = Pending.restored(facts, tensors)
            self.number, self.began = facts["n"], record.end
            return None
        ids = [decoded(each) for each in facts["ids"]]
        if facts["kind"] == KEPT:
            answers = [decoded(each) for each in facts["answers"]]
            packing = Packing.restored(facts["packing"]) if "packing" in facts else None
            self.pending.keep(ids, tensors["x"], answers, facts["time"], packing)
            return None
        self.number = facts["n"]
        labels = [decoded(each) for each in facts["labels"]]
        batch = self.pending.batch(self.number, ids, labels) if ids else None
        self.pending.take(ids)
        return batch


def remove_old(folder: Path) -> None:
    """Remove the segments that no version needs which `resume` may take."""
    each = [version for version in versions_in(folder) if not version.abandoned]
    # A pinned version is there for a rollback, which learns no later label.
    needed = min(
        (_learned(v.path) for v in [*each[:1], *(v for v in each if not v.pinned)]), default=0
    )
    segments = segments_in(folder)
    with suppress(OSError):  # an old file that stays does no harm
        for old, following in pairwise(segments):
            if following.start().facts["n"] > needed:
                break
            old.path.unlink(missing_ok=True)
        for half in folder.glob(f".*{SUFFIX}.*.part"):  # a killed process left it
            half.unlink(missing_ok=True)


def _learned(path: Path) -> int:
    """Up to which label of the journal a version has learned; 0 if it cannot be read."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return _learned_in(path, path.stat().st_mtime_ns)
    return 0


@lru_cache(100)
def _learned_in(path: Path, _changed: int) -> int:
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    facts = json.loads(header["__metadata__"]["recollect"].partition(" ")[2])
    return int(facts.get("labelled", 0))


def forget_in(folder: Path, ids: set[Hashable]) -> None:
    """Write the journal anew without the examples and labels of these ids."""
    segments = segments_in(folder)
    for segment in segments:
        last = segment is segments[-1]
        if any(_names(record, ids) for record in segment.records(last=last)):
            _without(segment, ids, last=last)


def _names(record: Record, ids: set[Hashable]) -> bool:
    past = [each for each, _ in record.facts.get("past", [])]
    return any(decoded(each) in ids for each in [*record.facts["ids"], *past])


def _without(segment: Segment, ids: set[Hashable], *, last: bool) -> None:
    def changed(record: Record) -> Record | None:
        facts, tensors = dict(record.facts), dict(record.tensors)
        rows = [row for row, each in enumerate(facts["ids"]) if decoded(each) not in ids]
        for name in ("ids", "answers", "labels", "times"):
            if name in facts:
                facts[name] = [facts[name][row] for row in rows]
        if "past" in facts:
            facts["past"] = [pair for pair in facts["past"] if decoded(pair[0]) not in ids]
        if "x" in tensors:
            tensors["x"] = tensors["x"][torch.tensor(rows, dtype=torch.long)]
        return Record(facts, tensors, 0) if rows or facts["kind"] != KEPT else None

    rewrite(segment, changed, last=last)
