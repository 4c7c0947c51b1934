"""Which runs belong together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from recollect.experiments.results import Results, Summary
from recollect.experiments.store import Stored
from recollect.train import Result

__all__ = ["Configuration", "configurations", "latest"]


@dataclass(frozen=True)
class Configuration:
    """Runs that differ in their seed alone, in the order of their seeds."""

    rows: tuple[Stored, ...]

    @property
    def first(self) -> Result:
        """One of the runs, for what they have in common."""
        return self.rows[0].result

    @property
    def summary(self) -> Summary:
        """Their means."""
        return Summary(tuple(row.result for row in self.rows))


def latest(rows: Sequence[Stored]) -> list[Stored]:
    """Each run once: of those with the same configuration and seed, the one made last."""
    found = {row.key: row for row in sorted(rows, key=lambda row: row.created)}
    kept = set(map(id, found.values()))
    return [row for row in rows if id(row) in kept]


def configurations(rows: Sequence[Stored]) -> list[Configuration]:
    """The runs grouped by everything but the seed, as `Results` groups them."""
    by_result = {id(row.result): row for row in rows}
    groups = Results([row.result for row in rows]).summaries()
    return [
        Configuration(
            tuple(by_result[id(run)] for run in sorted(group.runs, key=lambda run: run.seed))
        )
        for group in groups
    ]
