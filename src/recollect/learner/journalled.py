"""A learner with a journal of predictions and late labels beside its checkpoints."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from pathlib import Path
from typing import Any

from torch import nn

from recollect.errors import DataError, RecollectError
from recollect.learner import log
from recollect.learner.arriving import Arriving
from recollect.learner.fair_lock import FairLock
from recollect.learner.ids import Id, Named, ids_in, named_as
from recollect.learner.journal import Journal
from recollect.learner.labels import Labels
from recollect.learner.pending import Batch, Pending
from recollect.learner.recovery import Replay, forget_in, remove_old, state_record
from recollect.learner.remembered import Forgotten, traces_in
from recollect.learner.remembering import Remembering
from recollect.learner.settings import Settings
from recollect.learner.versions import versions_in

__all__ = ["Journalled"]

SEGMENT = 2**24  # bytes, and more than four times what waits: then a journal begins a new file


class Journalled(Remembering):
    """With a folder of checkpoints, predictions with ids and labels are appended to a journal.

    Two locks are taken in this order: `_labelling` for labels, one step at a time in the order of
    the journal, and `_waiting` for what waits and the journal. The step takes `_lock` alone.
    """

    def __init__(self, module: nn.Module, settings: Settings, labels: Labels, window: int) -> None:
        super().__init__(module, settings, labels, window)
        self._labelling, self._waiting = FairLock(), FairLock()
        self._pending = Pending(settings.pending, settings.expires)
        self._due: deque[Batch] = deque()  # journalled, and not yet learned
        self._number = 0  # of the last call of `label` that had something to learn

    @property
    def pending(self) -> int:
        """How many predictions with an id wait for their labels."""
        return len(self._pending)

    @abstractmethod
    def _learn(
        self, arrived: Arriving, predicted: Any, on_outlier: str, named: Named | None
    ) -> float:
        """Take a step; the thread has `_lock`."""

    def _learn_next(self) -> tuple[float, int, int]:
        """Take the step that is due next: its loss, and how many were learned and left out."""
        try:
            found = self._learn_batch(self._due[0])
        except RecollectError:
            self._due.popleft()
            raise
        self._due.popleft()
        return found

    def _learn_due(self) -> None:
        """Take the steps of an earlier call that was interrupted."""
        while self._due:
            batch = self._due[0]
            self._learn_again(batch)
            self._due.popleft()

    def _learn_again(self, batch: Batch) -> None:
        """Take a journalled step; one that is refused was refused when it was journalled."""
        try:
            self._learn_batch(batch)
        except RecollectError as error:
            log.logger.warning("label %d of the journal was refused: %s", batch.number, error)

    def _learn_batch(self, batch: Batch) -> tuple[float, int, int]:
        how = self._settings.on_outlier
        with self._lock:
            before = self._now
            # A state says up to where it has learned, also if this step is refused.
            self._now = noted = before._replace(labelled=batch.number)
            try:
                rows = range(len(batch.labels))
                arrived = Arriving(batch.x, batch.labels, True, rows, batch.packing)
                named = named_as(batch.ids, None, len(rows), several=True)
                loss = self._learn(arrived, batch.answers, how, named)
            except BaseException as error:
                if self._now is noted and not isinstance(error, RecollectError):
                    self._now = before
                raise
            now = self._now
            try:
                self._checkpoint_if_due()
            except DataError as error:  # no label is lost by that
                log.logger.error("%s; the journal has it", error)
        learned = now.record.seen - before.record.seen
        return loss, learned, now.watch.left_out - before.watch.left_out

    def _journal_is_due(self) -> bool:
        journal = self._checkpoints.journal
        if journal is None:
            return self._checkpoints.folder is not None
        return journal.size > max(SEGMENT, 4 * journal.began)

    def _open_journal(self) -> None:
        """Have a journal in the folder, if there is one; a new file if it has become long.

        A journal begins after a version of this learner, to which its labels are added.
        """
        if not self._journal_is_due():
            return
        folder = self._checkpoints.folder
        assert folder is not None
        if self._checkpoints.journal is None:
            self.checkpoint()
        else:
            self._checkpoints.close_journal()
            self._checkpoints.wanted = True  # so that older files can go
        state = state_record(self._pending, self._number)
        self._checkpoints.journal = Journal.begun(folder, *state)
        remove_old(folder)

    def _synced(self, journal: Journal | None) -> DataError | None:
        """Have the journal on the disk; the error if that failed, and then it is left."""
        try:
            if journal is not None:
                journal.sync()
        except DataError as error:
            self._checkpoints.close_journal()
            return error
        return None

    def _recover(self, folder: Path, *, learn: bool) -> None:
        """Learn the labels in a folder's journal that came after this state, or leave them.

        What waits for labels is what waited at the journal's end.
        """
        replay = Replay(folder, self._now.labelled)
        if replay.segment is None:
            return
        if replay.missing and learn:
            log.logger.warning("the journal in %s lacks labels that came before it", folder)
        for batch in replay.batches():
            if learn:
                self._learn_again(batch)
        self._pending = replay.pending
        self._number = max(replay.number, self._now.labelled)
        whole = replay.number == self._number
        self._now = self._now._replace(labelled=self._number)
        if learn and whole and self._checkpoints.folder == folder:
            self._checkpoints.journal = Journal.continued(replay.segment, replay.began, replay.end)

    def _recover_version(self, path: Path) -> None:
        """The same if this was loaded from the newest version; from an older, it is a rollback."""
        folder = self._checkpoints.folder
        if folder is not None:
            newest = versions_in(folder)[:1]
            self._recover(folder, learn=any(each.path.samefile(path) for each in newest))

    def forget(self, ids: Any) -> Forgotten:
        """Remove all examples with this id, or with these ids, from memory and from what waits.

        No tensor of the learner and no file that is written later has their bytes; a journal is
        written anew without them. They are never replayed again, and their slots are the first that
        are filled. What is returned says what cannot be undone: the weights have learned from them,
        and earlier checkpoints are as they were.
        """
        wanted = set(ids_in(ids))
        with self._labelling:
            self._learn_due()
            found, rows, files = self._empty(wanted)
            found |= self._forget_pending(wanted)
            unknown = [each for each in ids_in(ids) if each not in found]
            return Forgotten(rows, unknown, traces_in(self._now), files)

    def _forget_pending(self, wanted: set[Id]) -> set[Id]:
        """Remove predictions that wait, and write the journal anew without them; which waited."""
        with self._waiting:
            waited = self._pending.forget(wanted)
            folder, journal = self._checkpoints.folder, self._checkpoints.journal
            if folder is not None:
                self._checkpoints.close_journal()
                forget_in(folder, set(wanted))
                if journal is not None:
                    self._open_journal()
        return {each for each in wanted if each in waited}
