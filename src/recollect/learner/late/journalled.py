"""A learner that journals predictions and delayed labels next to its checkpoints."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from recollect.errors import DataError, RecollectError
from recollect.learner import log
from recollect.learner.contents.ids import Id, Named, ids_in, named_as
from recollect.learner.contents.remembered import Forgotten, Remembering, inode_of, traces_in
from recollect.learner.fair_lock import FairLock
from recollect.learner.inputs.arriving import Arriving
from recollect.learner.late.journal import Journal
from recollect.learner.late.pending import Batch, Pending
from recollect.learner.late.recovery import Replay, forget_in, remove_old, state_record
from recollect.learner.saving.versions import versions_in
from recollect.learner.settings import Settings
from recollect.learner.targets.answers import Answers

# A new file is begun above this size in bytes, if it is also four times that of the first record.
SEGMENT = 2**24


class Journalled(Remembering):
    """A learner that appends predictions with ids, and their labels, to a journal.

    The journal is in the folder of the checkpoints, if there is one. Two locks are taken in this
    order: `_labelling`, so that labels are learned one step at a time and in the order of the
    journal, and `_waiting`, for the pending predictions and the journal. A step takes only `_lock`.
    """

    def __init__(self, module: nn.Module, settings: Settings, labels: Answers, window: int) -> None:
        super().__init__(module, settings, labels, window)
        self._labelling, self._waiting = FairLock(), FairLock()
        self._pending = Pending(settings.pending, settings.expires)
        self._due: deque[Batch] = deque()  # journalled but not yet learned
        self._number = 0  # of the last call of `label` with labels to learn

    @property
    def pending(self) -> int:
        """The number of predictions with an id that wait for a label."""
        return len(self._pending)

    @abstractmethod
    def _learn(
        self, arrived: Arriving, predicted: Any, on_outlier: str, named: Named | None
    ) -> tuple[float, Mapping[int, str]]:
        """Take a step; return its loss, and why rows were left out. The caller holds `_lock`."""

    def _learn_next(self) -> tuple[float, tuple[Hashable, ...]]:
        """Take the next step that is due; return its loss and the ids that were left out."""
        try:
            found = self._learn_batch(self._due[0])
        except RecollectError:
            self._due.popleft()
            raise
        self._due.popleft()
        return found

    def _learn_due(self) -> None:
        """Take the steps that an earlier, interrupted call has left."""
        while self._due:
            batch = self._due[0]
            self._learn_again(batch)
            self._due.popleft()

    def _learn_again(self, batch: Batch) -> None:
        """Take a journalled step; an error is only logged, as it was raised the first time."""
        try:
            self._learn_batch(batch)
        except RecollectError as error:
            log.logger.warning("journalled label %d could not be learned: %s", batch.number, error)

    def _learn_batch(self, batch: Batch) -> tuple[float, tuple[Hashable, ...]]:
        how = self._settings.on_outlier
        with self._lock:
            before = self._now
            # The number of the last label is stored even if this step raises an error.
            self._now = noted = before._replace(labelled=batch.number)
            try:
                rows = range(len(batch.labels))
                arrived = Arriving(batch.x, batch.labels, True, rows, batch.packing)
                named = named_as(batch.ids, None, len(rows), several=True)
                loss, left_out = self._learn(arrived, batch.answers, how, named)
            except BaseException as error:
                if self._now is noted and not isinstance(error, RecollectError):
                    self._now = before
                raise
            try:
                self._checkpoint_if_due()
            except DataError as error:  # no label is lost: the journal has them
                log.logger.error("%s; the labels are in the journal", error)
        return loss, tuple(batch.ids[row] for row in sorted(left_out))

    def _journal_is_due(self) -> bool:
        journal = self._checkpoints.journal
        if journal is None:
            return self._checkpoints.folder is not None
        return journal.size > max(SEGMENT, 4 * journal.began)

    def _open_journal(self) -> None:
        """Create the journal if there is a folder; begin a new file if the last one is long.

        A journal always follows a checkpoint, from which its labels are replayed.
        """
        if not self._journal_is_due():
            return
        folder = self._checkpoints.folder
        assert folder is not None
        if self._checkpoints.journal is None:
            self.checkpoint()
        else:
            self._checkpoints.close_journal()
            self._checkpoints.wanted = True  # so that older files can be removed
        state = state_record(self._pending, self._number)
        self._checkpoints.journal = Journal.begun(folder, *state)
        remove_old(folder)

    def _synced(self, journal: Journal | None) -> DataError | None:
        """Sync the journal to disk; if that fails, close it and return the error."""
        try:
            if journal is not None:
                journal.sync()
        except DataError as error:
            self._checkpoints.close_journal()
            return error
        return None

    def _recover(self, folder: Path, *, learn: bool) -> None:
        """Restore the pending predictions from a folder's journal.

        With `learn`, also learn the labels that were journalled after this state.
        """
        folder = folder.absolute()
        replay = Replay(folder, self._now.labelled)
        if replay.segment is None:
            return
        if replay.missing and learn:
            log.logger.warning(
                "the journal in %s does not have all labels since this checkpoint: the older ones "
                "are not learned",
                folder,
            )
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
        """Recover from the journal; learn its labels only if this is the newest version.

        An older version is a rollback, which does not learn later labels.
        """
        folder = self._checkpoints.folder
        if folder is not None:
            newest = versions_in(folder)[:1]
            self._recover(folder, learn=any(each.path.samefile(path) for each in newest))

    def forget(self, ids: Any) -> Forgotten:
        """Remove all examples with this id, or these ids, from memory and from those that wait.

        No tensor of the learner and no file written afterwards contains them; a journal is
        rewritten without them. They are never replayed again, and their slots are the first to be
        filled. The result lists what cannot be undone: the weights have learned from the examples,
        and earlier checkpoints are unchanged.
        """
        wanted = set(ids_in(ids))
        with self._labelling:
            if self._checkpoints.folder is not None:
                self._checkpoints.check()
            self._learn_due()
            found, rows, files = self._empty(wanted)
            waited = self._forget_pending(wanted)
            unknown = [each for each in ids_in(ids) if each not in found | waited]
            # Opening a journal makes a checkpoint, which may have replaced or removed some files.
            older = (path for path, inode in files.items() if inode_of(path) == inode)
            return Forgotten(rows, unknown, traces_in(self._now), tuple(older), len(waited))

    def _forget_pending(self, wanted: set[Id]) -> set[Hashable]:
        """Remove pending predictions and rewrite the journal; return the ids that were pending."""
        with self._waiting:
            waited = self._pending.forget(wanted)
            folder, journal = self._checkpoints.folder, self._checkpoints.journal
            if folder is not None:
                self._checkpoints.close_journal()
                try:
                    forget_in(folder, set(wanted))
                except OSError as error:
                    raise DataError(
                        f"the examples are removed from memory, but the journal in {folder} still "
                        f"has them: {error.strerror or error}; call forget again"
                    ) from None
                if journal is not None:
                    self._open_journal()
        return waited
