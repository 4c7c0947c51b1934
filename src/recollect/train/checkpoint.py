"""Checkpoints of long runs: the state is saved periodically, and the same job resumes from it."""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, final

from torch import Tensor

from recollect.errors import DataError, InputError, RecollectError
from recollect.files import pack, unpack, write_bytes
from recollect.train.identity import hashed
from recollect.train.job import Job
from recollect.train.result import Result

EVERY = 120.0
STATE, DONE, LOCK, COMMAND = ".safetensors", ".json", "lock", "command"


class Unfinished(NamedTuple):
    """The command line of a command that was stopped, and the bytes that it saved."""

    command: str
    size: int


class Saved(NamedTuple):
    """The saved state of a fleet during training: JSON data and tensors."""

    facts: Mapping[str, Any]
    tensors: Mapping[str, Tensor]


@final
@dataclass
class Checkpoints:
    """A folder with the state of every unfinished job and the results of finished ones.

    A file is named by the key of its job, so only the same job with the same code finds it. Files
    are written atomically. `deadline` is a value of `time.monotonic()` after which jobs save their
    state and stop. `command` is the command line that continues them.
    """

    folder: Path
    every: float = EVERY
    deadline: float | None = None
    command: str = ""
    _last: float = field(default_factory=time.monotonic)

    def saved(self, name: str) -> Saved | None:
        """Load the last saved state; None if there is none or the file is damaged."""
        try:
            return Saved(*unpack(self._state(name).read_bytes()))
        except (OSError, DataError):
            return None

    def save(self, name: str, state: Saved) -> None:
        """Save the state of a job, replacing an earlier one."""
        try:
            write_bytes(self._state(name), pack(state.facts, state.tensors))
            self._write_command()
        except OSError as error:
            raise RecollectError(
                f"the state of an unfinished run cannot be saved in {self.folder}: "
                f"{error.strerror or error}; free some space, or choose another folder"
            ) from None
        self._last = time.monotonic()

    def due(self) -> bool:
        """Whether it is time to save again."""
        return time.monotonic() - self._last >= self.every

    def time_is_up(self) -> bool:
        """Whether the time limit is reached."""
        return self.deadline is not None and time.monotonic() >= self.deadline

    def results(self, name: str) -> list[Result] | None:
        """Load the results of a finished job, or None."""
        try:
            found = json.loads(self._done(name).read_text("utf-8"))
            return [Result.from_json(run) for run in found] or None
        except (OSError, ValueError, TypeError, AttributeError, LookupError):
            return None

    def finish(self, name: str, results: list[Result]) -> None:
        """Save the results of a job, if possible, and delete its state."""
        with suppress(OSError):  # a full disk must not lose the results
            write_bytes(self._done(name), json.dumps([run.as_json() for run in results]).encode())
            self._state(name).unlink(missing_ok=True)
            self._write_command()

    def of(self, jobs: Sequence[Job], workers: int | None = None) -> Checkpoints:
        """The checkpoints of a command, in a folder for these jobs and number of workers.

        The folder's name has a hash of the jobs and one of the code that trains them.
        """
        name = hashed([*(job.key_without("code") for job in jobs), workers])
        code = hashed([job.identities[0].code for job in jobs])
        return replace(self, folder=self.folder / f"{name}-{code}")

    def of_other_code(self) -> list[Path]:
        """The folders in which the same command was left unfinished with other code."""
        name = self.folder.name.partition("-")[0]
        found = sorted(self.folder.parent.glob(f"{name}*"))
        return [folder for folder in found if folder.name != self.folder.name]

    def others(self) -> list[Unfinished]:
        """The other commands beside this one that were stopped and can be continued."""
        found = []
        for folder in sorted(self.folder.parent.glob("*")):
            other = replace(self, folder=folder)
            if folder.name != self.folder.name and other.any():
                with suppress(OSError, InputError), other.locked():  # an error if it still runs
                    command = (folder / COMMAND).read_text("utf-8")
                    size = sum(each.stat().st_size for each in folder.glob("*"))
                    found.append(Unfinished(command, size))
        return found

    def any(self) -> bool:
        """Whether there is a saved state or result."""
        return any(each.suffix in (STATE, DONE) for each in self.folder.glob("*"))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder within this context; raise an `InputError` if another process holds it.

        The lock of a process that died is ignored. If files cannot be locked or written, there is
        no lock.
        """
        lock = self._lock()
        try:
            yield
        finally:
            if lock is not None:
                (self.folder / LOCK).unlink(missing_ok=True)
                with suppress(OSError):  # not empty: there is a saved state
                    self.folder.rmdir()
                os.close(lock)

    def _lock(self) -> int | None:
        try:
            import fcntl
        except ImportError:  # not on this system
            return None
        path, lock = self.folder / LOCK, None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            while True:
                lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
                # Forked processes do not inherit this kind of lock, so it ends with this process.
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if path.exists() and os.path.samestat(os.fstat(lock), path.stat()):
                    os.ftruncate(lock, 0)
                    os.write(lock, str(os.getpid()).encode())
                    return lock
                os.close(lock)  # its previous owner has just deleted the file
        except OSError as error:
            busy = lock is not None and error.errno in (errno.EACCES, errno.EAGAIN)
            whose = os.read(lock, 20).decode() if lock is not None and busy else ""
            if lock is not None:
                os.close(lock)
            if not busy:
                return None
        raise InputError(
            f"another process{f' ({whose})' if whose else ''} is training the same runs: wait for "
            f"it or stop it, then run the same command again"
        )

    def clear(self) -> None:
        """Delete the folder when all jobs are finished."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _write_command(self) -> None:
        if self.command and not (self.folder / COMMAND).exists():
            write_bytes(self.folder / COMMAND, self.command.encode())

    def _state(self, name: str) -> Path:
        return self.folder / f"{name}{STATE}"

    def _done(self, name: str) -> Path:
        return self.folder / f"{name}{DONE}"
