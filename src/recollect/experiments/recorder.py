"""Record the provenance of trained results, and store them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import final

from recollect.experiments.results import Results
from recollect.experiments.store import Store, with_details
from recollect.train import Job, Result
from recollect.train.provenance import Provenance, commit

StorePath = Path | str | bool | None


def recorder(store: StorePath) -> Recorder:
    """Build a recorder for the store in a file, for the default store (True) or for none (None)."""
    if store is None or store is False:
        return Recorder(None, _command())
    file = Store(None if store is True else store)
    file.add([])  # fail before training if the store cannot be written
    return Recorder(file, _command())


@final
@dataclass(frozen=True)
class Recorder:
    """`ResultStore` for `train_all` that records provenance, and skips runs that its store has."""

    store: Store | None
    command: str
    fresh: bool = False
    _made: dict[str, Provenance] = field(default_factory=dict)

    def find(self, job: Job) -> list[Result | None]:
        """Return the stored result of each run of a job, or None if it must be trained.

        Runs must be trained if the command starts over, if there are callbacks, or if they lack
        details that the job requests.
        """
        # Read code and commit before training, as files may be edited meanwhile.
        identities, _ = job.identities, commit()
        if self.store is None or self.fresh or job.details.callbacks:
            return [None] * len(identities)
        found = self.store.find(identities)
        return [None if run is None or job.details.lacking(run) else run for run in found]

    def add(self, job: Job, results: Sequence[Result]) -> None:
        """Record the provenance of trained runs, and store them.

        Curves and other details already stored are retained.
        """
        made = Provenance.here(job, self.command)
        self._made.update((run.identity.key, made) for run in results)
        if self.store and not job.details.changing:
            before = self.store.find([run.identity for run in results])
            runs = [with_details(run, old) for run, old in zip(results, before, strict=True)]
            self.store.add(self.results(runs), replace=True)

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
