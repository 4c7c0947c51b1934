"""Which runs belong together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from recollect.experiments.files import Stored
from recollect.experiments.results import Results, Summary
from recollect.train import Result

__all__ = ["Configuration", "configurations"]


@dataclass(frozen=True)
class Configuration:
    """Runs that differ in their seed alone, in the order of their seeds, and their means."""

    rows: tuple[Stored, ...]
    summary: Summary

    @property
    def first(self) -> Result:
        """One of the runs, for what they have in common."""
        return self.rows[0].result


def configurations(rows: Sequence[Stored]) -> list[Configuration]:
    """The runs grouped by everything but the seed, as `Results` groups them."""
    by_result = {id(row.result): row for row in rows}
    found = []
    for group in Results([row.result for row in rows]).summaries():
        runs = sorted(group.runs, key=lambda run: run.seed)
        members = tuple(by_result[id(run)] for run in runs)
        found.append(Configuration(members, replace(group, runs=tuple(runs))))
    return found
