"""Checkpoints of a learner: a locked folder with its newest saved states."""

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
from recollect.learner.late.journal import Journal
from recollect.learner.numbers import is_whole, plain
from recollect.learner.saving.folder_lock import FolderLock
from recollect.learner.saving.image import Image, Pace
from recollect.learner.saving.versions import (
    SUFFIX,
    Lineage,
    Version,
    named,
    newest_line,
    versions_in,
)

KEEP = 3
THREAD = "recollect checkpoint"
NO_FOLDER = "this learner has no checkpoint folder: pass checkpoints='...'"

T = TypeVar("T")

_log = logging.getLogger("recollect.learner")


@final
class Checkpoints:
    """Saves states of a learner in a folder that it locks, and deletes the oldest files.

    Files are named by the number of examples seen. A folder that already has checkpoints is only
    written to if it is `owned`, that is if they are the same learner's. One state is written at a
    time, in a background thread; if another one is due meanwhile, it is `wanted` and saved
    afterwards. `saved` is the number of examples in the newest saved state.
    """

    def __init__(self, every: int | None = None, keep: int | None = None) -> None:
        for name, number in (("keep", keep), ("checkpoint_every", every)):
            if number is not None and not (is_whole(number) and number >= 1):
                raise InputError(
                    f"{name} must be a whole number, 1 or more, or None, not {number!r}"
                )
        self.every, self.owned = plain(every), False
        self.saved: int | None = None
        self.folder: Path | None = None
        self._keep = plain(keep)
        self.journal: Journal | None = None
        self._lock: FolderLock | None = None
        self._start: Version | None = None
        self._line: int | None = None
        self._most = self._keep or KEEP
        self.wanted = False
        self._thread: Thread | None = None
        self._pace = Pace()
        self._error: DataError | None = None

    @classmethod
    def of(cls, folder: str | Path | None, every: int | None, keep: int | None) -> Checkpoints:
        """Create checkpoints in a folder, and lock it; without a folder, none are saved."""
        found = cls(every, keep)
        if folder is not None:
            found.use(Path(folder))
        elif every is not None:
            raise InputError("checkpoint_every needs a folder: pass checkpoints='...'")
        return found

    @contextmanager
    def handed_over(self) -> Iterator[Checkpoints]:
        """Context in which a learner takes these over; an error releases the folder."""
        try:
            yield self
        except BaseException:
            self.release()
            raise

    def use(self, folder: Path) -> None:
        """Lock a folder, and save there from now on, also if the working directory changes.

        Raises:
            InputError: Another learner uses the folder.
        """
        if self.folder is None or self.folder.resolve() != folder.resolve():
            lock = FolderLock(folder)
            self.release()
            self.folder, self._lock, self.owned = folder.absolute(), lock, False
            self._start = self._line = None

    def continue_from(self, path: Path, seen: int) -> None:
        """Note that the learner was loaded from this file, and owns the files of the folder."""
        self.owned = True
        self.note_saved(seen)
        if self.folder is not None:
            each = versions_in(self.folder)
            line = newest_line(Lineage.read(self.folder), each)
            same = (version for version in each if version.path.samefile(path))
            self._start = next(same, Version(path, seen, line))

    def note_saved(self, seen: int) -> None:
        """Note that a state after `seen` examples is on disk."""
        self.saved = seen if self.saved is None else max(self.saved, seen)

    @property
    def busy(self) -> bool:
        """Whether a checkpoint is being written."""
        return self._thread is not None and self._thread.is_alive()

    def due(self, steps: int) -> bool:
        """Whether to save after this number of steps; false while a checkpoint is written."""
        if self.every is not None and self.folder is not None and steps % self.every == 0:
            self.wanted = True
        return self.wanted and not self.busy

    def save(self, image: Callable[[], Image], seen: int, *, wait: bool, pin: bool = False) -> Path:
        """Write a checkpoint, then delete the oldest ones and partial files of killed processes.

        Args:
            image: Creates the copy of the state to write.
            seen: Number of examples seen, which names the file.
            wait: Whether to wait until the file is on disk.
            pin: Whether to protect the file from deletion.

        Returns:
            The path of the file.
        """
        self.wanted = False
        self.check()
        self.wait()
        folder, line = self._prepared()
        path = named(folder, seen, line)
        state = image()
        write = partial(self._write, state, path, seen, pin)
        if wait:
            write()
        else:
            self._pace = state.pause = Pace()
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
        except BaseException as error:  # an exception in a thread would be lost
            self._error = DataError(f"a checkpoint could not be written: {error!r}")

    def check(self) -> None:
        """Raise an `InputError` if the folder is missing, not locked or another learner's."""
        if self.folder is None or self._lock is None:
            raise InputError(NO_FOLDER)
        if not self._lock.held:
            raise InputError(
                f"{str(self.folder)!r} is locked by the process that this one was forked from: "
                f"save checkpoints in that process"
            )
        if not self.owned and versions_in(self.folder):
            raise InputError(
                f"{str(self.folder)!r} contains the checkpoints of another learner: continue that "
                f"one with Learner.resume, or choose another folder"
            )

    def pin(self, path: Path, *, pinned: bool = True) -> None:
        """Protect a version from deletion, or remove its protection."""
        if self.folder is None:
            raise InputError(NO_FOLDER)
        if not any(version.path.name == path.name for version in versions_in(self.folder)):
            raise InputError(f"{str(self.folder)!r} has no version {path.name!r}")
        lineage = Lineage.read(self.folder)
        if not lineage.known:
            raise DataError(f"versions.json in {str(self.folder)!r} cannot be read: delete it, or "
                            f"restore it")  # fmt: skip
        names = lineage.pinned | {path.name} if pinned else lineage.pinned - {path.name}
        replace(lineage, pinned=frozenset(names)).write(self.folder)

    def wait(self) -> None:
        """Wait until the checkpoint that is being written is done."""
        if self._thread is not None and self._thread is not current_thread():
            self._pace.hurry()
            self._thread.join()
            self._thread = None

    def raise_failure(self) -> None:
        """Raise the error of a failed background checkpoint, once."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def release(self) -> None:
        """Wait for a checkpoint being written, unlock the folder and detach from it."""
        self.wait()
        self.close_journal()
        self.folder = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def close_journal(self) -> None:
        """Flush the folder's journal to disk, and close it."""
        journal, self.journal = self.journal, None
        if journal is not None:
            journal.close()

    def let_go(self) -> None:
        """Release the folder when the learner is garbage collected; a failure is logged."""
        self.release()
        if self._error is not None:
            _log.error("a checkpoint could not be saved: %s", self._error)

    def _prepared(self) -> tuple[Path, int]:
        """Return the folder and the line of versions to save in, a new one after a rollback."""
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
        with suppress(OSError):  # an old file that remains does no harm
            others = [v.path for v in versions_in(folder) if v.path != path and not v.pinned]
            halves = folder.glob(f".*{SUFFIX}.*.part")
            for old in [*others[self._most - 1 :], *halves]:
                old.unlink(missing_ok=True)


def newest(folder: Path, load: Callable[[Path], T]) -> T | None:
    """Load the newest version of a folder that is not damaged; None if there is no version.

    Skipped files are logged. If all are damaged, the error of the oldest is raised.
    """
    each = [version for version in versions_in(folder) if not version.abandoned]
    for number, version in enumerate(each):
        try:
            return load(version.path)
        except DataError as error:
            if number == len(each) - 1:
                raise
            _log.warning("a checkpoint was skipped, and the previous one is loaded: %s", error)
    return None


def has_versions(folder: Path) -> bool:
    """Whether a folder has checkpoints."""
    if folder.is_file():
        raise InputError(
            f"{str(folder)!r} is a file, not a folder of checkpoints: use Learner.load for a file"
        )
    return bool(versions_in(folder))
