"""Results of several runs, and their summaries over seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, overload

import numpy as np

from recollect.errors import unknown_name
from recollect.experiments.apart import chosen_words, differences, optimiser_words
from recollect.experiments.labels import (
    MEASURE_TITLES,
    SCORE_TITLES,
    SETTINGS,
    counted,
    decimals,
    meaningful,
    of_classes,
    setting_title,
)
from recollect.extras import needs
from recollect.train import Result

if TYPE_CHECKING:
    from pandas import DataFrame

FEWEST = 4
POINTS = 15.0
DEVIATIONS = 5.0


@dataclass(frozen=True)
class Mean:
    """Mean and standard deviation over seeds, printed with `decimals` decimals.

    >>> print(Mean(80.25, 1.5, seeds=10), Mean(80.25, 0.0, seeds=1))
    80.25 ±1.50 80.25
    """

    mean: float
    std: float
    seeds: int
    decimals: int = 2

    def __str__(self) -> str:
        known = self.seeds > 1 and math.isfinite(self.mean)  # one run has no deviation, not zero
        parts = [self.mean, self.std] if known else [self.mean]
        return " ±".join(f"{part:.{self.decimals}f}" for part in parts)

    def beside(self, runs: int) -> str:
        """Format the mean for a row of `runs` runs, with its seeds if only some have the score.

        >>> Mean(80.25, 1.5, seeds=2).beside(3)
        '80.25 ±1.50 (2 seeds)'
        """
        return str(self) if self.seeds == runs else f"{self} ({counted(self.seeds, 'seed')})"

    @classmethod
    def of(cls, values: Sequence[float | None]) -> Mean | None:
        """Compute mean and standard deviation; None if a value is missing.

        >>> str(Mean.of([1.0, 3.0])), str(Mean.of([0.001, math.inf]))
        ('2.00 ±1.41', 'inf')
        """
        present = [value for value in values if value is not None]
        if not present or len(present) < len(values):
            return None
        mean = float(np.mean(present))
        some = len(present) > 1 and math.isfinite(mean)
        return cls(mean, float(np.std(present, ddof=1)) if some else 0.0, len(present))


@dataclass(frozen=True)
class Summary:
    """Runs of one configuration, which differ only in their seed.

    `apart` states how it differs from other configurations on its benchmark, such as
    `network MyNet` if these have several networks. `chosen` describes epochs and split if they are
    not the usual ones, or vary among the results.
    """

    runs: tuple[Result, ...]
    apart: str = ""
    chosen: tuple[str, ...] = ()

    @property
    def first(self) -> Result:
        """The first run, for the attributes that all runs share."""
        return self.runs[0]

    @property
    def seeds(self) -> str:
        """Number of runs in words, such as `10 seeds`."""
        return counted(len(self.runs), "seed")

    @property
    def settings(self) -> list[str]:
        """Settings in which at least one run was scored."""
        return list(dict.fromkeys(setting for run in self.runs for setting in run.accuracy))

    def mean(self, metric: str, setting: str) -> Mean | None:
        """Return the mean over seeds of a score in a setting, such as `accuracy` in `class`.

        The scores are `accuracy`, `fwt`, `bwt`, `forgetting`, `average_incremental_accuracy` and
        `anytime_accuracy`; the settings are the keys of `Result.accuracy`. Runs without the score
        in that setting are ignored, and None is returned if no run has it.
        """
        if metric not in SCORE_TITLES:
            raise unknown_name("score", metric, SCORE_TITLES)
        if setting not in {*SETTINGS, *MEASURE_TITLES, *self.settings}:
            raise unknown_name("setting", setting, self.settings)
        scores = (getattr(run, metric) for run in self.runs)
        found = Mean.of([score[setting] for score in scores if setting in score])
        return found and replace(found, decimals=decimals(found.mean, setting))

    @property
    def values(self) -> str:
        """Hyper-parameters in words, and whatever else identifies the configuration."""
        values = [f"{name} {value:g}" for name, value in self.first.hyperparameters.items()]
        return ", ".join([*values, *self.choices, *self.chosen])

    @property
    def choices(self) -> list[str]:
        """Optimiser, network and whatever else was chosen, in words; empty for the defaults."""
        named = self.first.network_class
        network = [f"network {named}"] if named and "network " not in self.apart else []
        return [*self.optimiser, *network, *filter(None, [self.apart])]

    @property
    def optimiser(self) -> list[str]:
        """Optimiser and schedule in words; empty for plain SGD or if `apart` has them."""
        said = self.first.optimiser == "sgd" or "optimiser " in self.apart
        return [] if said else optimiser_words(self.first)

    @property
    def seconds(self) -> float:
        """Mean training time of a run, in seconds."""
        return float(np.mean([run.train_seconds for run in self.runs]))

    @property
    def far_below(self) -> tuple[Result, ...]:
        """Runs that did not diverge, but whose accuracy is far below the other runs (outliers).

        Far is more than 15 points and five standard deviations below the median in any setting. The
        standard deviation is 1.4826 times the median absolute deviation, and at least one point.
        Among fewer than four runs there are no outliers. Means include these runs.
        """
        bounds = {}
        for setting in self.settings:
            values = [run.accuracy[setting] for run in self.runs if setting in run.accuracy]
            if len(values) >= FEWEST and of_classes(self.first):
                middle = statistics.median(values)
                spread = 1.4826 * statistics.median(abs(value - middle) for value in values)
                bounds[setting] = middle - max(POINTS, DEVIATIONS * max(spread, 1.0))
        return tuple(
            run
            for run in self.runs
            if not run.diverged and any(run.accuracy.get(s, math.inf) < bounds[s] for s in bounds)
        )

    @property
    def remarks(self) -> str:
        """Number of runs that diverged or are far below the others, in words; may be empty."""
        diverged = sum(run.diverged for run in self.runs)
        counts = {"diverged": diverged, "far below": len(self.far_below)}
        return ", ".join(f"{count} {what}" for what, count in counts.items() if count)


class Results(Sequence[Result]):
    """Sequence of results, one per run.

    >>> from recollect import run
    >>> results = run("seq-digits", "sgd", seeds=2, lr=[0.03, 0.1])
    >>> len(results), len(results.summaries()), len(results[:3])
    (4, 2, 3)
    """

    def __init__(self, runs: Sequence[Result]) -> None:
        self._runs = list(runs)

    @overload
    def __getitem__(self, index: int) -> Result: ...
    @overload
    def __getitem__(self, index: slice) -> Results: ...
    def __getitem__(self, index: int | slice) -> Result | Results:
        """Return one run, or a slice as `Results`."""
        return Results(self._runs[index]) if isinstance(index, slice) else self._runs[index]

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Result]:
        return iter(self._runs)

    def __str__(self) -> str:
        """Format as one line per configuration, with means over seeds."""
        rows = []
        for summary in self.summaries():
            run = summary.first
            means = ", ".join(
                f"{setting_title(s)} {summary.mean('accuracy', s)}"
                for s in meaningful(summary.settings)
            )
            buffer = "" if run.buffer is None else f" buffer {run.buffer}"
            seeds = summary.seeds + (f", {summary.remarks}" if summary.remarks else "")
            rows.append(
                f"{run.benchmark} {run.method}{buffer}: {means} ({seeds}; {summary.values})"
            )
        return "\n".join(rows)

    def __repr__(self) -> str:
        """Format as `str` does, so that a notebook or prompt shows the means."""
        return str(self) or "Results([])"

    def __add__(self, other: Results) -> Results:
        """Return the runs of both."""
        return Results([*self, *other]) if isinstance(other, Results) else NotImplemented

    def summaries(self) -> list[Summary]:
        """Group the runs by configuration (all but the seed), in order of first appearance.

        Runs with a different network, data or code are separate groups even under the same names;
        `Summary.apart` states the difference.
        """
        groups: dict[str, list[Result]] = {}
        for run in distinct(self._runs):
            groups.setdefault(run.identity.key_without("seed"), []).append(run)
        return labelled([Summary(tuple(runs)) for runs in groups.values()])

    def save(self, path: Path | str) -> None:
        """Write the runs to a file, atomically, in the format that its suffix names.

        `.json` (or no suffix) and `.jsonl` have one object per run with its provenance; `load` and
        `recollect results --import` read them. `.csv` has a row per run, `.md` and `.tex` means.
        """
        from recollect.experiments.exports import save

        save(self, path)

    @classmethod
    def load(cls, *paths: Path | str) -> Results:
        """Read runs from `.json` and `.jsonl` files that `save` or `--json` wrote, or folders."""
        from recollect.experiments.files import read_json

        return cls([run for path in paths for run in read_json(path)])

    def to_pandas(self) -> DataFrame:
        """Return a pandas DataFrame with one row per run and the columns of a CSV export."""
        from recollect.experiments.exports import columns

        with needs("pandas", extra="pandas", what="Results.to_pandas"):
            from pandas import DataFrame
        return DataFrame(columns(self))


def distinct(runs: Iterable[Result]) -> list[Result]:
    """Drop duplicates: the same run with the same accuracies."""
    kept: list[Result] = []
    met: dict[str, list[Result]] = {}
    for run in runs:
        same = met.setdefault(run.identity.key, [])
        if all(each.accuracy != run.accuracy for each in same):
            same.append(run)
            kept.append(run)
    return kept


def labelled(found: Sequence[Summary]) -> list[Summary]:
    """State what tells each configuration from the others that are shown with it."""
    first = [each.first for each in found]
    difference = differences(first)
    return [
        replace(each, apart=difference(each.first), chosen=chosen_words(each.first, first))
        for each in found
    ]
