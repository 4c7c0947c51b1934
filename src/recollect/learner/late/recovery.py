"""Replay a journal of delayed labels, and remove old files and forgotten ids from it."""

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
from recollect.learner.late.journal import SUFFIX, Record, Segment, rewrite, segments_in
from recollect.learner.late.pending import Batch, Pending
from recollect.learner.saving.versions import versions_in
from recollect.learner.targets.labels import decoded, encoded

KEPT, LABELLED, STATE = "kept", "labelled", "state"

Pair = tuple[dict[str, Any], dict[str, Tensor]]


def kept_record(
    ids: Sequence[Hashable], x: Tensor, answers: Sequence[Hashable], time: float,
    packing: Packing | None = None,
) -> Pair:  # fmt: skip
    """Return the record of predictions that wait for labels, with examples `[n, ...]`."""
    pairs = {"ids": [encoded(each) for each in ids], "answers": [encoded(each) for each in answers]}
    packed = {"packing": packing.plain()} if packing else {}
    return {"kind": KEPT, **pairs, "time": time, **packed}, {"x": x}


def labelled_record(batch: Batch, time: float) -> Pair:
    """Return the record of the labels of one step; the examples are in earlier records."""
    labels = [encoded(each) for each in batch.labels]
    ids = [encoded(each) for each in batch.ids]
    return {"kind": LABELLED, "n": batch.number, "ids": ids, "labels": labels, "time": time}, {}


def state_record(pending: Pending, number: int) -> Pair:
    """Return the first record of a segment: the pending predictions after `number` labels."""
    facts, tensors = pending.state()
    return {"kind": STATE, "n": number, **facts}, tensors


@final
class Replay:
    """Read the journal in a folder from the label after number `after`.

    After `batches`, `pending` has the predictions that were pending at the end of the journal, and
    `number` is the number of its last label. The journal ends at byte `end` of `segment`, whose
    first record ends at byte `began`. The records start after label number `start`; if that is
    later than `after`, labels are `missing`.
    """

    def __init__(self, folder: Path, after: int) -> None:
        self._segments, self._after = segments_in(folder), after
        self.segment = self._segments[-1] if self._segments else None
        self.began, self.end = 0, 0
        self.number, self.start = after, after
        self.pending = Pending(1, None)
        for place in reversed(range(len(self._segments))):
            self.start = self._segments[place].start().facts["n"]
            if self.start <= after:  # the newest segment that has all labels since `after`
                self._segments = self._segments[place:]
                break

    @property
    def missing(self) -> bool:
        """Whether labels after number `after` have been removed from the journal."""
        return self.start > self._after

    def batches(self) -> Iterator[Batch]:
        """Yield the labels after number `after` with their examples, one batch per step."""
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
            self.pending.add(ids, tensors["x"], answers, facts["time"], packing)
            return None
        self.number = facts["n"]
        labels = [decoded(each) for each in facts["labels"]]
        batch = self.pending.batch(self.number, ids, labels) if ids else None
        self.pending.mark_labelled(ids)
        return batch


def remove_old(folder: Path) -> None:
    """Remove the segments that no version needs from which `resume` may continue."""
    each = [version for version in versions_in(folder) if not version.abandoned]
    # Only the newest and unpinned versions count: a rollback to a pinned one learns no labels.
    needed = min(
        (_learned(v.path) for v in [*each[:1], *(v for v in each if not v.pinned)]), default=0
    )
    segments = segments_in(folder)
    with suppress(OSError):  # an old file that is not removed does no harm
        for old, following in pairwise(segments):
            if following.start().facts["n"] > needed:
                break
            old.path.unlink(missing_ok=True)
        for half in folder.glob(f".*{SUFFIX}.*.part"):  # left by a process that was killed
            half.unlink(missing_ok=True)


def _learned(path: Path) -> int:
    """Return the number of the last label that a version has learned; 0 if it is unreadable."""
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
    """Rewrite the journal without the examples and labels of these ids."""
    segments = segments_in(folder)
    for segment in segments:
        last = segment is segments[-1]
        if any(_mentions(record, ids) for record in segment.records(last=last)):
            _rewrite_without(segment, ids, last=last)


def _mentions(record: Record, ids: set[Hashable]) -> bool:
    past = [each for each, _ in record.facts.get("past", [])]
    return any(decoded(each) in ids for each in [*record.facts["ids"], *past])


def _rewrite_without(segment: Segment, ids: set[Hashable], *, last: bool) -> None:
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
