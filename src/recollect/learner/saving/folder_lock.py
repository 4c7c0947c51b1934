"""A lock on a folder of checkpoints, which one learner holds at a time."""

from __future__ import annotations

import errno
import logging
import os
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import final

from recollect.errors import DataError, InputError

try:
    import fcntl
except ImportError:  # not available on Windows
    fcntl = None  # type: ignore[assignment]

NAME = "lock"
IN_USE = {errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK}

_log = logging.getLogger("recollect.learner")
_here: set[tuple[int, int]] = set()  # folders that this process has locked, by device and inode
_change = Lock()


@final
class FolderLock:
    """Creates a folder if necessary, and locks it until `release`.

    The lock is held on an open file, so it ends with the process, even if that is killed. If the
    file system has no locks, only other learners of the same process are locked out.

    Raises:
        InputError: Another learner holds the lock.
        DataError: The folder cannot be created or written to.
    """

    def __init__(self, folder: Path) -> None:
        self._pid = os.getpid()
        self._file: int | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            found = folder.stat()
            self._key = found.st_dev, found.st_ino
            with _change:
                if self._key in _here:
                    raise _in_use(folder, f"another learner of this process ({self._pid})")
                self._file = os.open(folder / NAME, os.O_RDWR | os.O_CREAT, 0o644)
                self._lock(folder)
                _here.add(self._key)
        except OSError as error:
            self._close()
            raise DataError(
                f"{str(folder)!r} cannot be used for checkpoints: {error.strerror or error}"
            ) from None
        except InputError:
            self._close()
            raise

    @property
    def held(self) -> bool:
        """Whether this process holds the lock; a process forked from it does not."""
        return self._file is not None and os.getpid() == self._pid

    def release(self) -> None:
        """Unlock the folder."""
        if self.held:
            with _change:
                _here.discard(self._key)
            if fcntl is not None and self._file is not None:
                with suppress(OSError):  # a forked process may have the file open too
                    fcntl.flock(self._file, fcntl.LOCK_UN)
        self._close()

    def _lock(self, folder: Path) -> None:
        assert self._file is not None
        try:
            if fcntl is None:
                raise OSError(errno.ENOSYS, "this system has no file locks")
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in IN_USE:
                owner = os.pread(self._file, 200, 0).decode(errors="replace").strip()
                raise _in_use(folder, owner or "another process") from None
            _say_unlocked(folder, error.strerror or str(error))
            return
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"process {self._pid} on {socket.gethostname()}".encode(), 0)

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _in_use(folder: Path, owner: str) -> InputError:
    return InputError(
        f"{str(folder)!r} is in use by {owner}, and only one learner at a time may use a folder: "
        f"end that process, close that learner (learner.close()), or choose another folder"
    )


@cache
def _say_unlocked(folder: Path, why: str) -> None:
    _log.warning(
        "%s cannot be locked (%s): make sure that only one process at a time uses it",
        folder, why,
    )  # fmt: skip
