"""Summaries and verdicts of the runs in results/, for the tables of the documentation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import final, get_args

from tools.manifest import FOLDER, MANIFEST, Line, asked, named, read

from recollect.errors import InputError
from recollect.experiments import paper
from recollect.experiments.files import read_json
from recollect.experiments.labels import SETTINGS
from recollect.experiments.paper import Kind, Published
from recollect.experiments.plan import plan
from recollect.experiments.reproduce import SINGLE, Comparison, cells, compare, metric_of
from recollect.experiments.results import Results, Summary
from recollect.methods import method
from recollect.streams import Benchmark, benchmark

__all__ = [
    "NOT_MEASURED", "OUTSIDE", "VERDICTS", "Cell", "Evidence", "mark", "printed", "settings_of",
]  # fmt: skip

NOT_MEASURED = "not measured"
VERDICTS: tuple[str, ...] = get_args(Kind)
OUTSIDE = ("above", "below")


@final
@dataclass(frozen=True)
class Cell:
    """Table cell: a score of a method with a buffer on a benchmark, in one setting."""

    benchmark: str
    method: str
    buffer: int | None
    setting: str
    score: str = "accuracy"
    epochs: int | None = None

    @property
    def known(self) -> Benchmark:
        """The benchmark of the cell."""
        return benchmark(self.benchmark)

    @property
    def paper(self) -> Published | None:
        """The published result."""
        metric = metric_of(self.known, self.epochs) if self.score == "accuracy" else self.score
        return paper.published(
            self.known.paper, self.setting, self.method, self.buffer, metric or ""
        )


@final
class Evidence:
    """All runs in the folder, and the commands that make them."""

    def __init__(self, folder: Path = FOLDER, manifest: Path = MANIFEST) -> None:
        self.folder = folder
        self.lines = read(manifest)
        files = sorted({line.file for line in self.lines if line.makes_runs})
        there = [folder / file for file in files if (folder / file).exists()]
        found = Results([run for file in there for run in read_json(file)]).summaries()
        self._found = found
        self._summaries: dict[str, Summary] = {}
        for each in found:
            key = asked(each.first.identity, "seed")
            if key in self._summaries:
                raise InputError(
                    f"{each.first.benchmark} {each.first.method}, buffer {each.first.buffer}: runs "
                    f"of one command differ in what made them ({each.apart})"
                )
            self._summaries[key] = each

    @cached_property
    def _planned(self) -> Mapping[str, Line]:
        return {
            asked(identity, "seed"): line
            for line in self.lines
            if line.makes_runs
            for job in line.jobs()
            for identity in job.planned
        }

    def summary(
        self,
        name: str,
        kind: str,
        buffer: int | None,
        epochs: int | None = None,
        validation: bool = False,
        values: Mapping[str, float] | None = None,
    ) -> Summary | None:
        """Return the runs of a configuration; hyper-parameters default to the default ones."""
        return self._summaries.get(self._key(name, kind, buffer, epochs, validation, values))

    def is_planned(self, name: str, kind: str, buffer: int | None, epochs: int | None) -> bool:
        """Return True if a command of the manifest makes these runs."""
        return self._key(name, kind, buffer, epochs) in self._planned

    def compared(self, cell: Cell) -> Comparison | None:
        """Compare with the published result; None if not measured or not defined."""
        found = self.summary(cell.benchmark, cell.method, cell.buffer, cell.epochs)
        if found is None or found.mean(cell.score, cell.setting) is None:
            return None
        return compare(cell.known, found, cell.setting, cell.score)

    def tried(self, name: str, kind: str, buffer: int | None) -> list[Summary]:
        """Return all configurations of a method that were scored on the validation split."""
        wanted = name, kind, buffer, True
        firsts = ((each, each.first) for each in self._found)
        return [s for s, r in firsts if (r.benchmark, r.method, r.buffer, r.validation) == wanted]

    def tally(self, wanted: Sequence[Cell]) -> Counter[str]:
        """Count the cells by verdict; cells without one are not measured."""
        return Counter(self._verdict(cell) for cell in wanted)

    def by_verdict(self, wanted: Sequence[Cell]) -> dict[str, list[Cell]]:
        """Group the cells by verdict, in the order of verdicts."""
        found: dict[str, list[Cell]] = {kind: [] for kind in (*VERDICTS, NOT_MEASURED)}
        for cell in wanted:
            found[self._verdict(cell)].append(cell)
        return found

    def _verdict(self, cell: Cell) -> str:
        one = self.compared(cell)
        return NOT_MEASURED if one is None or one.verdict is None else one.verdict.kind

    @staticmethod
    def _key(
        name: str,
        kind: str,
        buffer: int | None,
        epochs: int | None,
        validation: bool = False,
        values: Mapping[str, float] | None = None,
    ) -> str:
        known = benchmark(name)
        planned = plan(
            method(kind), seeds=[0], benchmark=known, buffer=buffer, values=values or {},
            epochs=epochs, validation=validation,
        )  # fmt: skip
        return asked(named(planned, known)[0].planned[0], "seed")


def printed(name: str, score: str = "accuracy", epochs: int | None = None) -> list[Cell]:
    """Return the cells of all published results of this kind for a benchmark."""
    return [cell for cell in _cells(name, score, epochs) if cell.paper is not None]


def settings_of(name: str, kind: str) -> list[str]:
    """Return the settings in which a method is scored on a benchmark."""
    setting = benchmark(name).setting
    if setting != "class":
        return [setting]
    return ["task"] if method(kind).needs.task_id else ["class", "task"]


def mark(one: Comparison | None) -> str:
    """Return the symbol of a verdict, in parentheses if it is weak."""
    return "" if one is None or one.verdict is None else one.verdict.mark


def _cells(name: str, score: str, epochs: int | None) -> Iterator[Cell]:
    known = benchmark(name)
    single = metric_of(known, epochs) == SINGLE
    for row in cells(known, epochs=epochs):
        for setting in SETTINGS:
            yield Cell(name, row.method, row.buffer, setting, score, 1 if single else None)
