"""Read results/manifest.txt, the commands that make the runs behind the documentation."""

from __future__ import annotations

import re
import shlex
from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import cast, final

from recollect.cli.main import build_parser
from recollect.cli.run import plans_for
from recollect.errors import InputError
from recollect.experiments.plan import Plan
from recollect.experiments.reproduce import cells, plans_of
from recollect.experiments.values import seeds_from
from recollect.nets import MLP
from recollect.streams import Benchmark, Stream, benchmark
from recollect.train import Job
from recollect.train.identity import ENVIRONMENT, Identity

__all__ = ["FOLDER", "MANIFEST", "Line", "asked", "named", "read"]

FOLDER = Path(__file__).parents[1] / "results"
MANIFEST = FOLDER / "manifest.txt"
COMMIT = re.compile(r"commit ([0-9a-f]{40})")


@final
@dataclass(frozen=True)
class Line:
    """Command, the file of its runs, and the commit that made them."""

    file: str
    command: str
    commit: str

    @property
    def makes_runs(self) -> bool:
        """True if the file has runs, not the data of a figure."""
        return self.file.endswith(".jsonl")

    def jobs(self) -> list[Job]:
        """Jobs of the command without data, enough to identify the runs."""
        chosen = _parser().parse_args(shlex.split(self.command)[1:])
        known = benchmark(chosen.benchmark)
        if hasattr(chosen, "methods"):
            rows = cells(known, chosen.methods, chosen.buffers, chosen.epochs)
            plans = plans_of(known, rows, seeds_from(chosen.seeds), chosen.epochs)
        else:
            plans = plans_for(chosen)
        return [job for plan in plans for job in named(plan, known)]

    @cache  # noqa: B019 - a manifest is small, and read again and again
    def run_keys(self) -> dict[str, Job]:
        """Keys of all runs that the command makes, each with its job."""
        if not self.makes_runs:
            return {}
        return {asked(identity): job for job in self.jobs() for identity in job.planned}


@cache
def _parser() -> ArgumentParser:
    return build_parser()


def asked(identity: Identity, *parts: str) -> str:
    """Return the key of a run without data, network, code and precision."""
    return identity.key_without(*ENVIRONMENT, *parts)


def read(path: Path = MANIFEST) -> list[Line]:
    """Read the lines of the manifest in order, without comments."""
    return list(_lines(path))


def named(plan: Plan, known: Benchmark) -> list[Job]:
    """Return the jobs of a plan on a stream that has a name but no data."""
    nothing = cast(Stream, SimpleNamespace(name=known.name))
    return plan.jobs(nothing, lambda: MLP(1, 1))


def _lines(path: Path) -> Iterator[Line]:
    commit = ""
    for number, text in enumerate(path.read_text("utf-8").splitlines(), start=1):
        if not text.strip() or text.startswith("#"):
            continue
        if found := COMMIT.fullmatch(text):
            commit = found[1]
            continue
        file, colon, command = text.partition(": ")
        if not (commit and colon and command.startswith("recollect ")):
            raise InputError(
                f"{path}, line {number}: give `commit HASH` first, then lines `FILE: recollect ...`"
            )
        yield Line(file, command, commit)
