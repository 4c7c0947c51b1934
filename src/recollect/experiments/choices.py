"""Choose which of several configurations of a method and buffer to show, and state why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

from recollect.errors import InputError
from recollect.experiments.apart import variants
from recollect.experiments.labels import meaningful, setting_title
from recollect.experiments.results import Summary
from recollect.experiments.values import axes_of
from recollect.methods import every_method, omitted_defaults, symbol
from recollect.streams import BENCHMARKS
from recollect.train import Result

USUAL = "the default values"


@final
@dataclass(frozen=True)
class Choice:
    """The configurations of a method and buffer on a benchmark, such as the points of a grid.

    `shown` is the one that was chosen, and `why` states the reason. `variant` distinguishes
    networks and data that share the benchmark's name.
    """

    configurations: tuple[Summary, ...]
    shown: Summary
    why: str
    variant: str


def choices(found: Iterable[Summary]) -> list[Choice]:
    """Group configurations by benchmark, network, data, epochs, split, method and buffer.

    Each group shows the configuration with the default hyper-parameters. Without it, it shows the
    one with the most seeds and, among these, the best mean accuracy in its first setting.
    """
    every = list(found)
    variant = variants(each.first for each in every)
    groups: dict[tuple[object, ...], list[Summary]] = {}
    for each in every:
        run = each.first
        key = (
            run.benchmark, variant(run), run.epochs, run.validation, run.method, run.buffer
        )  # fmt: skip
        groups.setdefault(key, []).append(each)
    return [
        Choice(tuple(group), *_chosen(group), variant(group[0].first)) for group in groups.values()
    ]


def usual(run: Result) -> bool:
    """Return True if a run has the default hyper-parameters, which are the paper's if it has any.

    Runs of unknown methods or benchmarks count as having the defaults.
    """
    kind, known = every_method().get(run.method), BENCHMARKS.get(run.benchmark)
    if kind is None or known is None:
        return True
    try:
        axes = axes_of(kind, known, run.buffer, {})
    except InputError:
        return True
    used = {**omitted_defaults(kind), **run.hyperparameters}
    return {symbol(name): values[0] for name, values in axes.items()} == used


def _chosen(group: Sequence[Summary]) -> tuple[Summary, str]:
    setting = meaningful(group[0].settings)[0]

    def rank(each: Summary) -> tuple[bool, int, float]:
        mean = each.mean("accuracy", setting)
        return usual(each.first), len(each.runs), mean.mean if mean else -1.0

    ranks = [rank(each) for each in group]
    first = max(ranks)
    shown = group[ranks.index(first)]
    rivals = [seeds for common, seeds, _ in ranks if common == first[0]]
    if first[0] and len(rivals) == 1:
        return shown, USUAL
    most = f" of those with {shown.seeds}" if min(rivals) < max(rivals) else ""
    return shown, f"the best mean accuracy{most}, {setting_title(setting)}"
