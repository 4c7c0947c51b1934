"""A folder that holds the last few saved states of a learner."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import final

from recollect.errors import InputError
from recollect.learner.file import write

__all__ = ["Checkpoints"]

SUFFIX = ".recollect"


@final
@dataclass(frozen=True)
class Checkpoints:
    """Saves after every so many steps, and keeps the newest few files.

    A file is named by the number of examples that had been seen, so names sort by age.
    """

    folder: Path
    every: int | None = None
    last: int = 3

    def __post_init__(self) -> None:
        if self.last < 1 or (self.every is not None and self.every < 1):
            raise InputError("checkpoints are made every 1 or more steps, and 1 or more are kept")

    def due(self, steps: int) -> bool:
        """Whether a state is to be saved after so many steps."""
        return self.every is not None and steps % self.every == 0

    def save(self, data: bytes, seen: int) -> Path:
        """Save a state, then remove the oldest and what a killed process left half written."""
        path = self.folder / f"{seen:015d}{SUFFIX}"
        write(path, data)
        with suppress(OSError):  # an old file that stays does no harm
            others = [other for other in self.files() if other != path]
            halves = self.folder.glob(f".*{SUFFIX}.*.part")
            for old in [*others[self.last - 1 :], *halves]:
                old.unlink(missing_ok=True)
        return path

    def files(self) -> list[Path]:
        """The states that were saved, newest first."""
        return sorted(self.folder.glob(f"*{SUFFIX}"), reverse=True)
