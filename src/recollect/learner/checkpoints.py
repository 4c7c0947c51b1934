"""The files of learners, and a folder with the newest saved states of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, final

from recollect.errors import DataError, InputError
from recollect.files import write_bytes

__all__ = ["Checkpoints", "reading", "write"]

SUFFIX = ".recollect"

T = TypeVar("T")


@final
@dataclass
class Checkpoints:
    """Saves a state after every so many steps, and leaves the newest few files in the folder.

    A file is named by the number of examples that had been seen, so names sort by age. Without a
    folder nothing is saved. A folder that already has files is only written to if it is `owned`:
    if they are the same learner's.
    """

    folder: Path | None
    every: int | None = None
    last: int = 3
    owned: bool = False

    def __post_init__(self) -> None:
        if self.folder is None:
            if self.every is not None:
                raise InputError("checkpoint_every needs a folder: say checkpoints='...'")
        elif self.last < 1 or (self.every is not None and self.every < 1):
            raise InputError("checkpoints are made every 1 or more steps, and 1 or more are kept")

    def due(self, steps: int) -> bool:
        """Whether a state is to be saved after so many steps."""
        return self.every is not None and steps % self.every == 0

    def save(self, state: Callable[[], bytes], seen: int) -> Path:
        """Save a state, then remove the oldest and what a killed process left half written."""
        if self.folder is None:
            raise InputError("this learner has no folder for checkpoints: say checkpoints='...'")
        if not self.owned and self.files():
            raise InputError(
                f"{self.folder} holds the checkpoints of another learner: go on with "
                f"that one by Learner.resume, or name another folder"
            )
        path = self.folder / f"{seen:015d}{SUFFIX}"
        write(path, state())
        self.owned = True
        with suppress(OSError):  # an old file that stays does no harm
            others = [other for other in self.files() if other != path]
            halves = self.folder.glob(f".*{SUFFIX}.*.part")
            for old in [*others[self.last - 1 :], *halves]:
                old.unlink(missing_ok=True)
        return path

    def files(self) -> list[Path]:
        """The saved states, newest first."""
        return sorted(self.folder.glob(f"*{SUFFIX}"), reverse=True) if self.folder else []

    def newest(self, load: Callable[[Path], T]) -> T | None:
        """What `load` returns for the newest file that is not damaged; None if there is no file.

        If all files are damaged, the error is that of the oldest.
        """
        if self.folder is not None and self.folder.is_file():
            raise InputError(
                f"{self.folder} is a file: Learner.load takes one, and resume a folder"
            )
        files = self.files()
        for path in files[:-1]:
            with suppress(DataError):
                return load(path)
        return load(files[-1]) if files else None


def write(path: Path, data: bytes) -> None:
    """Write a file atomically; it is on the disk when this returns."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise DataError(f"{path} cannot be written: it is a device or a pipe, not a file")
        write_bytes(path, data)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}") from None


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Turn what goes wrong while a file is read into a `DataError` that names the file."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
    except DataError as error:
        message = str(error)
        raise DataError(message if str(path) in message else f"{path}: {message}") from None
