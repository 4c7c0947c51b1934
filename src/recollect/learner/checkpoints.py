"""A folder with the newest saved states of one learner, which are written in the background."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Thread, current_thread
from typing import TypeVar, final

from recollect.errors import DataError, InputError
from recollect.learner.image import Image
from recollect.learner.journal import Journal
from recollect.learner.lock import FolderLock
from recollect.learner.versions import (
    SUFFIX,
    Lineage,
    Version,
    named,
    newest_line,
    versions_in,
)

__all__ = ["Checkpoints", "has_versions", "newest"]

KEEP = 3
THREAD = "recollect checkpoint"

T = TypeVar("T")

_log = logging.getLogger("recollect.learner")


@final
class Checkpoints:
    """Saves states of a learner in a folder that is locked for it, and removes the oldest.

    A file is named by the number of examples that had been seen. A folder that already has files
    is only written to if it is `owned`: if they are the same learner's. One state is written at a
    time, in a thread of its own: one that is due meanwhile is `wanted`, and is saved after it.
    `saved` is how many examples are on the disk.
    """

    def __init__(self, every: int | None = None, keep: int | None = None) -> None:
        if (keep is not None and keep < 1) or (every is not None and every < 1):
            raise InputError("checkpoints are made every 1 or more steps, and 1 or more are kept")
        self.every, self.owned = every, False
        self.saved: int | None = None
        self.folder: Path | None = None
        self._keep = keep
        self.journal: Journal | None = None
        self._lock: FolderLock | None = None
        self._start: Version | None = None
        self._line: int | None = None
        self._most = keep or KEEP
        self.wanted = False
        self._thread: Thread | None = None
        self._error: DataError | None = None

    @classmethod
    def of(cls, folder: str | Path | None, every: int | None, keep: int | None) -> Checkpoints:
        """Those in a folder, which is locked, or none."""
        found = cls(every, keep)
        if folder is not None:
            found.use(Path(folder))
        elif every is not None:
            raise InputError("checkpoint_every needs a folder: say checkpoints='...'")
        return found

    @contextmanager
    def handed_over(self) -> Iterator[Checkpoints]:
        """These, to be given to a learner; the folder is released if that fails."""
        try:
            yield self
        except BaseException:
            self.release()
            raise

    def use(self, folder: Path) -> None:
        """Save in this folder from now on; refused if another learner has it."""
        if self.folder is None or self.folder.resolve() != folder.resolve():
            lock = FolderLock(folder)
            self.release()
            self.folder, self._lock, self.owned = folder, lock, False
            self._start = self._line = None

    def continue_from(self, path: Path, seen: int) -> None:
        """The learner was loaded from this file, and the files of the folder are its own."""
        self.owned = True
        self.note_saved(seen)
        if self.folder is not None:
            each = versions_in(self.folder)
            line = newest_line(Lineage.read(self.folder), each)
            same = (version for version in each if version.path.samefile(path))
            self._start = next(same, Version(path, seen, line))

    def note_saved(self, seen: int) -> None:
        """So many examples are on the disk."""
        self.saved = seen if self.saved is None else max(self.saved, seen)

    @property
    def busy(self) -> bool:
        """Whether a state is being written."""
        return self._thread is not None and self._thread.is_alive()

    def due(self, steps: int) -> bool:
        """Whether to save after so many steps; not before the last state is written."""
        if self.every is not None and self.folder is not None and steps % self.every == 0:
            self.wanted = True
        return self.wanted and not self.busy

    def save(self, image: Callable[[], Image], seen: int, *, wait: bool, pin: bool = False) -> Path:
        """Write a state, then remove the oldest and what a killed process left half written.

        The file is there when this returns, or soon after if it does not `wait`.
        """
        self.wanted = False
        self.check()
        self.wait()
        folder, line = self._prepared()
        path = named(folder, seen, line)
        write = partial(self._write, image(), path, seen, pin)
        if wait:
            write()
        else:
            self._thread = Thread(target=self._noting_failures, args=(write,), name=THREAD)
            self._thread.start()
        return path

    def _write(self, image: Image, path: Path, seen: int, pin: bool) -> None:
        image.write(path)
        if pin:
            self.pin(path)
        self.note_saved(seen)
        self._prune(path.parent, path)

    def _noting_failures(self, write: Callable[[], None]) -> None:
        try:
            write()
        except DataError as error:
            self._error = error
        except BaseException as error:  # it would get lost in a thread
            self._error = DataError(f"a checkpoint cannot be written: {error!r}")

    def check(self) -> None:
        """Refuse to save where that is not possible or another learner's files are."""
        if self.folder is None or self._lock is None:
            raise InputError("this learner has no folder for checkpoints: say checkpoints='...'")
        if not self._lock.held:
            raise InputError(
                f"{self.folder} belongs to the process that this one was forked from: resume there"
            )
        if not self.owned and versions_in(self.folder):
            raise InputError(
                f"{self.folder} holds the checkpoints of another learner: go on with "
                f"that one by Learner.resume, or name another folder"
            )

    def pin(self, path: Path, *, pinned: bool = True) -> None:
        """Have a version stay in the folder, or let it go as others do."""
        if self.folder is None:
            raise InputError("this learner has no folder for checkpoints: say checkpoints='...'")
        if not any(version.path.name == path.name for version in versions_in(self.folder)):
            raise InputError(f"{self.folder} has no version {path.name}")
        lineage = Lineage.read(self.folder)
        if not lineage.known:
            raise DataError(f"{self.folder} has notes on its versions that cannot be read: delete "
                            f"versions.json, or restore it")  # fmt: skip
        names = lineage.pinned | {path.name} if pinned else lineage.pinned - {path.name}
        replace(lineage, pinned=frozenset(names)).write(self.folder)

    def wait(self) -> None:
        """Wait for the state that is being written."""
        if self._thread is not None and self._thread is not current_thread():
            self._thread.join()
            self._thread = None

    def raise_failure(self) -> None:
        """Raise the error of a state that could not be written, once."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def release(self) -> None:
        """Wait, and let another learner use the folder; this one has none then."""
        self.wait()
        self.close_journal()
        self.folder = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def close_journal(self) -> None:
        """Have the folder's journal on the disk, and leave it."""
        journal, self.journal = self.journal, None
        if journal is not None:
            journal.close()

    def let_go(self) -> None:
        """The same when the learner is not there any more: a failure is logged."""
        self.release()
        if self._error is not None:
            _log.error("a checkpoint was not saved: %s", self._error)

    def _prepared(self) -> tuple[Path, int]:
        """The folder, and the line to save in, which is a new one after a rollback."""
        assert self.folder is not None
        if self._line is None:
            lineage, each = Lineage.read(self.folder), versions_in(self.folder)
            line, forks = newest_line(lineage, each), dict(lineage.forks)
            start = self._start
            if each and start and (start.line, start.seen) < (each[0].line, each[0].seen):
                line += 1
                forks[line] = start.line, start.seen
            self._most = self._keep or lineage.keep or max(KEEP, len(each))
            noted = replace(lineage, keep=self._keep or lineage.keep, forks=forks)
            if lineage.known and noted != lineage:
                noted.write(self.folder)
            self._line, self.owned = line, True
        return self.folder, self._line

    def _prune(self, folder: Path, path: Path) -> None:
        if not Lineage.read(folder).known:
            return
        with suppress(OSError):  # an old file that stays does no harm
            others = [v.path for v in versions_in(folder) if v.path != path and not v.pinned]
            halves = folder.glob(f".*{SUFFIX}.*.part")
            for old in [*others[self._most - 1 :], *halves]:
                old.unlink(missing_ok=True)


def newest(folder: Path, load: Callable[[Path], T]) -> T | None:
    """What `load` returns for the newest version that is not damaged; None if there is no file.

    A file that is passed over is logged. If all are damaged, the error is that of the oldest.
    """
    each = [version for version in versions_in(folder) if not version.abandoned]
    for number, version in enumerate(each):
        try:
            return load(version.path)
        except DataError as error:
            if number == len(each) - 1:
                raise
            _log.warning("a checkpoint was passed over for the one before: %s", error)
    return None


def has_versions(folder: Path) -> bool:
    """Whether a folder has a saved state."""
    if folder.is_file():
        raise InputError(f"{folder} is a file: Learner.load takes one, and resume a folder")
    return bool(versions_in(folder))
