"""Long runs: their state is saved now and then, and the same job continues from it."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, final

from torch import Tensor

from recollect.errors import DataError, RecollectError
from recollect.files import pack, unpack, write_bytes
from recollect.train.identity import hashed
from recollect.train.job import Job, Result

__all__ = ["Checkpoints", "Saved"]

EVERY = 120.0


@dataclass(frozen=True)
class Saved:
    """The state of a fleet between two stretches of its stream: plain data, and tensors."""

    facts: Mapping[str, Any]
    tensors: Mapping[str, Tensor]


@final
@dataclass
class Checkpoints:
    """A folder with the state of every unfinished job, and the results of finished ones.

    A file is named by the key of its job, so only the same job under the same code finds it. Files
    appear whole or not at all. `deadline` is a reading of `time.monotonic()` after which jobs save
    their state and stop.
    """

    folder: Path
    every: float = EVERY
    deadline: float | None = None
    _last: float = field(default_factory=time.monotonic)

    def saved(self, name: str) -> Saved | None:
        """The state that was saved last, or None; a damaged file counts as none."""
        try:
            return Saved(*unpack(self._state(name).read_bytes()))
        except (OSError, DataError):
            return None

    def save(self, name: str, state: Saved) -> None:
        """Save the state of a job; it replaces an earlier one."""
        try:
            write_bytes(self._state(name), pack(state.facts, state.tensors))
        except OSError as error:
            raise RecollectError(
                f"the state of an unfinished run cannot be saved in {self.folder}: "
                f"{error.strerror or error}; make room there, or choose another folder"
            ) from None
        self._last = time.monotonic()

    def due(self) -> bool:
        """Whether it is time to save again."""
        return time.monotonic() - self._last >= self.every

    def time_is_up(self) -> bool:
        """Whether the time limit has come."""
        return self.deadline is not None and time.monotonic() >= self.deadline

    def results(self, name: str) -> list[Result] | None:
        """The results of a job that was finished before, or None."""
        try:
            found = json.loads(self._done(name).read_text("utf-8"))
            return [Result.from_json(run) for run in found] or None
        except (OSError, ValueError, TypeError, AttributeError):
            return None

    def finish(self, name: str, results: list[Result]) -> None:
        """Save the results of a job, if that is possible; its state is no longer needed."""
        with suppress(OSError):  # a full disk must not cost what was trained
            write_bytes(self._done(name), json.dumps([run.as_json() for run in results]).encode())
            self._state(name).unlink(missing_ok=True)

    def of(self, jobs: Sequence[Job], workers: int | None = None) -> Checkpoints:
        """Those of a command: a folder of its own, found by the same jobs on as many workers.

        It is named by the jobs, and then by the code that trains them.
        """
        name = hashed([*(job.key_without("code") for job in jobs), workers])
        code = hashed([job.identities[0].code for job in jobs])
        return replace(self, folder=self.folder / f"{name}-{code}")

    def of_other_code(self) -> list[Path]:
        """The folders in which other code left the same command unfinished."""
        name = self.folder.name.partition("-")[0]
        found = sorted(self.folder.parent.glob(f"{name}*"))
        return [folder for folder in found if folder.name != self.folder.name]

    def clear(self) -> None:
        """Remove the folder; all is done."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _state(self, name: str) -> Path:
        return self.folder / f"{name}.safetensors"

    def _done(self, name: str) -> Path:
        return self.folder / f"{name}.json"
