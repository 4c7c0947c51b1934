"""Long runs: their state is saved now and then, and the same job continues from it."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, final

from torch import Tensor

from recollect.errors import DataError, RecollectError
from recollect.files import pack, unpack, write_bytes
from recollect.train.job import Job, Result
from recollect.train.provenance import code_version, network_facts

__all__ = ["Checkpoints", "Saved", "fingerprint"]

FORMAT = 1
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

    A file is named by the `fingerprint` of its job, so only the same job finds it. It is written
    aside and renamed: whoever reads it meets a whole one. `deadline` is a reading of
    `time.monotonic()` after which jobs save their state and stop.
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
        """Keep the state of a job, in the place of an earlier one."""
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
            return [Result(**run) for run in found] or None
        except (OSError, ValueError, TypeError):
            return None

    def finish(self, name: str, results: list[Result]) -> None:
        """Keep the results of a job, if they can be kept; its state is no longer needed."""
        with suppress(OSError):  # a full disk must not cost what was trained
            write_bytes(self._done(name), json.dumps([run.as_json() for run in results]).encode())
            self._state(name).unlink(missing_ok=True)

    def of(self, jobs: Sequence[Job], workers: int | None = None) -> Checkpoints:
        """Those of a command: a folder of its own, found by the same jobs in the same split.

        It is named by the jobs, and then by the code that trains them.
        """
        jobs_name = _hashed(" ".join([*(_described(job) for job in jobs), str(workers)]))
        code = _hashed(" ".join(code_version(job.kind) for job in jobs))
        return replace(self, folder=self.folder / f"{jobs_name}-{code}")

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


def fingerprint(job: Job) -> str:
    """A name for everything that a job's results depend on, except the content of its data."""
    return _hashed(f"{_described(job)} {code_version(job.kind)}")


def _described(job: Job) -> str:
    """A name for a job, whatever code trains it."""
    stream = job.arriving
    facts = [
        FORMAT, stream.name, stream.setting, stream.classes, stream.shape, str(stream.dtype),
        [stream.parts(task) for task in range(stream.tasks)], repr(stream.images),
        network_facts(job.network), job.kind.name,
        f"{job.kind.__module__}.{job.kind.__qualname__}",
        [(run.seed, run.lr, asdict(run.method)) for run in job.runs],
        job.batch, job.replay, job.buffer, job.epochs, job.validation,
        str(job.device.type), job.full_precision,
    ]  # fmt: skip
    return _hashed(json.dumps(facts))


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
