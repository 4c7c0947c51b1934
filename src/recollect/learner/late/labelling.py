"""Learn delayed labels by id, journalled and exactly once."""

from __future__ import annotations

import math
import time
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from recollect.core.packing import Packing
from recollect.errors import DataError, InputError
from recollect.learner.engine.probing import check_accepted
from recollect.learner.inputs.parts import first_rows, query
from recollect.learner.late.journalled import Journalled
from recollect.learner.late.pending import Labelled, ids_of
from recollect.learner.late.recovery import Replay, kept_record, labelled_record
from recollect.learner.targets.labels import encoded, labels_of


class Late(Journalled):
    """A learner that can learn labels after its predictions, matched by id; see `label`."""

    def label(self, ids: Any, y: Any) -> Labelled:
        """Learn the labels of examples that were passed to `predict` with these ids.

        All labels are learned in one step, and `metrics` counts the original predictions. Ids that
        are not pending are ignored and listed in the result. With a folder of checkpoints, the
        labels are on disk when this returns: after a crash, the resumed learner learns them exactly
        once and in the same steps. Invalid labels raise an `InputError`, and nothing changes. If
        the step itself raises an error, its labels count as used: no step is repeated.

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
                f"there are {len(named)} ids and {len(labels)} labels: give one of each, or two "
                f"lists of the same length"
            )
        with self._labelling:
            self._check_open()
            self._learn_due()
            with self._waiting:
                self._open_journal()
                now, journal = time.time(), self._checkpoints.journal
                rows, repeated, expired, unknown = self._pending.sort(named, now)
                if not rows:
                    return Labelled(0, math.nan, 0, repeated, expired, unknown)
                new = [named[row] for row in rows], [labels[row] for row in rows]
                taken = self._pending.batch(self._number + 1, *new)
                self._check_labels(taken.labels)
                if journal is not None:
                    journal.append(*labelled_record(taken, now))
                self._due.append(taken)
                self._number += 1
                self._pending.mark_labelled(taken.ids)
            unsaved = self._synced(journal)
            loss, left_out = self._learn_next()
        if unsaved is not None:
            raise DataError(f"the labels were learned, but not saved: {unsaved}")
        learned = len(taken.ids) - len(left_out)
        return Labelled(learned, loss, len(left_out), repeated, expired, unknown, left_out)

    def replay_journal(self, folder: str | Path) -> int:
        """Learn the labels in a folder's journal in the same steps; return how many there were.

        These are the labels after the state of this learner; for a new learner, all of them. With
        the same arguments and initial weights, it becomes bit for bit the learner of that folder.
        With other arguments, it shows how they would have performed on the same labels.

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
            raise InputError(
                "this learner has a journal or pending predictions: replay into a new learner"
            )
        with self._labelling:
            replay = Replay(Path(folder), self._now.labelled)
            if replay.missing:
                raise InputError(
                    f"the journal in {folder} begins after label {replay.start}, but this learner "
                    f"has learned only up to label {self._now.labelled}: load a later version"
                )
            count = 0
            for batch in replay.batches():
                self._learn_again(batch)
                count += len(batch.labels)
            self._number = self._now.labelled
            return count

    def _keep(self, x: Any, ids: Any, answers: list[Hashable]) -> None:
        """Store examples and their predictions until their labels arrive, and journal them."""
        named, several = ids_of(ids)
        engine, count = self._now.engine, len(named) if several else None
        if engine is not None:
            packing = engine.kind.arriving.packing
            batch, _ = query(x, engine.kind.arriving, torch.device("cpu"))
        else:
            batch, packing = self._first_rows(x, count)
        if len(named) != len(batch) or len(set(named)) < len(named):
            raise InputError(
                f"there are {len(set(named))} different ids and {len(batch)} examples: give one id "
                f"for each example"
            )
        self._check_open()
        if self._journal_is_due():
            with self._labelling, self._waiting:
                self._open_journal()
        with self._waiting:
            first = self._pending.oldest()
            if engine is None and first is not None:
                first.kind.check(batch, packing)
            rows, now = self._pending.unlabelled(named), time.time()
            if rows:
                kept = (
                    [named[row] for row in rows],
                    batch[rows],
                    [answers[row] for row in rows],
                )
                if self._checkpoints.journal is not None:
                    self._checkpoints.journal.append(*kept_record(*kept, now, packing))
                self._pending.add(*kept, now, packing)

    def _first_rows(self, x: Any, count: int | None) -> tuple[Tensor, Packing | None]:
        """Convert examples that arrive before the first label, if the network accepts them."""
        with self._waiting:
            first = self._pending.oldest()
        kind, reader = first and first.kind, self._settings.reader(self._module)
        batch, packing = first_rows(x, count, reader, kind)
        if kind is None:
            check_accepted(self._module, self._settings, batch, packing)
        return batch, packing

    def _check_labels(self, labels: list[Hashable]) -> None:
        """Raise `InputError` for labels that cannot be learned, before they are journalled."""
        self._now.labels.with_new(labels, self._settings.max_classes)
        if self._checkpoints.folder is not None:
            for label in labels:
                encoded(label)
