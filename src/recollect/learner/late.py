"""Labels that arrive after the prediction, by id: kept, journalled, and learned exactly once."""

from __future__ import annotations

import math
import time
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import torch

from recollect.errors import DataError, InputError
from recollect.learner.examples import Kind
from recollect.learner.journalled import Journalled
from recollect.learner.labels import encoded, labels_of
from recollect.learner.parts import first_rows, query
from recollect.learner.pending import Labelled, ids_of
from recollect.learner.recovery import Replay, kept_record, labelled_record

__all__ = ["Late"]


class Late(Journalled):
    """A learner whose predictions may have ids, so that labels can follow; see `label`."""

    def label(self, ids: Any, y: Any) -> Labelled:
        """Learn from the labels of examples that `predict` was given with these ids.

        It is one step, and `metrics` counts the answers that were given then. Ids that are not
        waiting are ignored, and the result says which. With a folder of checkpoints, the labels are
        on the disk when this returns: a process that is killed learns them when it is resumed,
        exactly once and in the same steps. Labels that a learner cannot have raise an `InputError`,
        and nothing changes. If the step raises, its labels count as used: no step is tried twice.

        >>> from recollect import ER, MLP, Learner
        >>> learner = Learner(MLP(2, 1), ER())
        >>> learner.predict([[1.0, 0.0], [0.0, 1.0]], ids=["order 7", "order 8"])
        [None, None]
        >>> learner.label("order 8", "late").learned, learner.pending
        (1, 1)
        >>> learner.label(["order 8", "order 9"], ["late", "late"]).ignored
        ('order 8', 'order 9')
        """
        named, several = ids_of(ids)
        labels, batch = labels_of(y)
        if batch != several or len(labels) != len(named):
            raise InputError(
                f"there are {len(named)} ids and {len(labels)} labels: give one of each, or a list "
                f"of ids and a list of as many labels"
            )
        with self._labelling:
            self._check_open()
            self._learn_due()
            with self._waiting:
                self._open_journal()
                now, journal = time.time(), self._checkpoints.journal
                rows, *ignored = self._pending.sorted(named, now)
                if not rows:
                    return Labelled(0, math.nan, 0, *ignored)
                new = [named[row] for row in rows], [labels[row] for row in rows]
                taken = self._pending.batch(self._number + 1, *new)
                self._check_labels(taken.labels)
                if journal is not None:
                    journal.append(*labelled_record(taken, now))
                self._due.append(taken)
                self._number += 1
                self._pending.take(taken.ids)
            unsaved = self._synced(journal)
            loss, learned, left_out = self._learn_next()
        if unsaved is not None:
            raise DataError(f"the labels were learned, but not saved: {unsaved}")
        return Labelled(learned, loss, left_out, *ignored)

    def replay_journal(self, folder: str | Path) -> int:
        """Learn from the labels in the journal of a folder, in the same steps; how many labels.

        They are those that came after the state that this learner is in: for a new learner, all.
        With the same arguments and first weights it becomes the learner of that folder, bit for
        bit; with others it tells what they would have made of the same labels.

        >>> from tempfile import mkdtemp
        >>> from recollect import ER, MLP, Learner
        >>> folder = mkdtemp()
        >>> with Learner(MLP(2, 1), ER(), checkpoints=folder) as learner:
        ...     _ = learner.predict([[1.0, 0.0], [0.0, 1.0]], ids=[1, 2])
        ...     _ = learner.label([2, 1], ["late", "in time"])
        >>> Learner(MLP(2, 1), ER()).replay_journal(folder)
        2
        """
        self._check_open()
        if self._checkpoints.journal is not None or len(self._pending):
            raise InputError("predictions of this learner wait for labels: replay in a new one")
        with self._labelling:
            replay = Replay(Path(folder), self._now.labelled)
            if replay.missing:
                raise InputError(
                    f"the journal in {folder} begins after label {replay.start}, and this learner "
                    f"has learned up to {self._now.labelled}: load a version that has more"
                )
            count = 0
            for batch in replay.batches():
                self._learn_again(batch)
                count += len(batch.labels)
            self._number = self._now.labelled
            return count

    def _keep(self, x: Any, ids: Any, answers: list[Hashable]) -> None:
        """Have examples and the answers to them wait for labels; journalled when this returns."""
        named, several = ids_of(ids)
        engine, count = self._now.engine, len(named) if several else None
        if engine is not None:
            packing = engine.kind.arriving.packing
            batch, _ = query(x, engine.kind.arriving, torch.device("cpu"))
        else:
            batch, packing = first_rows(x, count, self._settings.reader(self._module))
        if len(named) != len(batch) or len(set(named)) < len(named):
            raise InputError(
                f"there are {len(set(named))} different ids and {len(batch)} examples: each has one"
            )
        self._check_open()
        if self._journal_is_due():
            with self._labelling, self._waiting:
                self._open_journal()
        with self._waiting:
            first = self._pending.first()
            if engine is None and first is not None:
                kind = Kind(tuple(first.x.shape), first.x.dtype, packing=first.packing)
                kind.check(batch, packing)
            rows, now = self._pending.new(named), time.time()
            if rows:
                kept = (
                    [named[row] for row in rows],
                    batch[rows],
                    [answers[row] for row in rows],
                )
                if self._checkpoints.journal is not None:
                    self._checkpoints.journal.append(*kept_record(*kept, now, packing))
                self._pending.keep(*kept, now, packing)

    def _check_labels(self, labels: list[Hashable]) -> None:
        """Refuse labels that the step would refuse, before they are journalled."""
        self._now.labels.with_new(labels, self._settings.max_classes)
        if self._checkpoints.folder is not None:
            for label in labels:
                encoded(label)
