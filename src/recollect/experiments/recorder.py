"""Record the provenance of results trained from Python, and store them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import final

from recollect.experiments.results import Results
from recollect.experiments.store import CommandStore, Store
from recollect.train import Job, Result
from recollect.train.provenance import Provenance, commit

__all__ = ["Recorder", "StorePath", "recorder"]

StorePath = Path | str | bool | None


def recorder(store: StorePath) -> Recorder:
    """Build a recorder for the store in a file, for the default store (True) or for none (None)."""
    command = _command()
    if store is None or store is False:
        return Recorder(None, command)
    file = Store(None if store is True else store)
    file.add([])  # fail before training if the store cannot be written
    return Recorder(CommandStore(file, command), command)


@final
@dataclass(frozen=True)
class Recorder:
    """`ResultStore` for `train_all` that records provenance and forwards runs to a store."""

    store: CommandStore | None
    command: str
    _made: dict[str, Provenance] = field(default_factory=dict)

    def find(self, job: Job) -> list[Result | None]:
        """Return the stored result of each run, or None; with callbacks, all runs are trained."""
        commit()  # read before training, as files may be edited meanwhile
        if self.store is None or job.details.callbacks:
            return [None] * len(job.runs)
        return self.store.find(job)

    def add(self, job: Job, results: Sequence[Result]) -> None:
        """Record the provenance of trained runs, and store them."""
        made = Provenance.here(job, self.command)
        self._made.update((run.identity.key, made) for run in results)
        if self.store and not job.details.changing:
            self.store.add(job, results)

    def results(self, runs: Sequence[Result]) -> Results:
        """Return the runs with their provenance."""
        made = self._made
        return Results(
            [replace(run, provenance=made.get(run.identity.key, run.provenance)) for run in runs]
        )


def _command() -> str:
    """Return the command line of this process; empty in an interactive session."""
    interactive = bool(getattr(sys, "ps1", "")) or not sys.argv or sys.argv[0] in ("", "-")
    return "" if interactive else shlex.join(["python", *sys.orig_argv[1:]])
