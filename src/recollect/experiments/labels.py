"""Titles and order of settings and scores in tables, figures and the report."""

from __future__ import annotations

import math
from collections.abc import Iterable

from recollect.methods import title_of
from recollect.train import Result
from recollect.train.measures import PERCENT

# In display order.
SETTINGS = {"class": "Class-IL", "task": "Task-IL", "domain": "Domain-IL", "general": "General CL"}

# Regression and multi-label results have measures in place of settings.
MEASURE_TITLES = {
    "rmse": "RMSE", "mae": "MAE", "r2": "R²", "f1": "F1", "macro_f1": "macro F1",
    "hamming": "Hamming loss", "average_precision": "average precision",
}  # fmt: skip

# Scores that the paper reports.
SCORES = {"accuracy": "accuracy", "fwt": "FWT", "bwt": "BWT", "forgetting": "forgetting"}

# Scores that it does not report. The second one needs curves.
MORE_SCORES = {
    "average_incremental_accuracy": "average incremental accuracy",
    "anytime_accuracy": "any-time accuracy",
}

SCORE_TITLES = {
    "accuracy": "accuracy after the last task",
    "fwt": "forward transfer",
    "bwt": "backward transfer",
    "forgetting": "forgetting",
    **MORE_SCORES,
}


def setting_title(name: str) -> str:
    """Return the title of a setting or measure; an unknown one is its own title.

    >>> setting_title("class"), setting_title("rmse"), setting_title("odd")
    ('Class-IL', 'RMSE', 'odd')
    """
    return (SETTINGS | MEASURE_TITLES).get(name, name)


def score_title(score: str, setting: str) -> str:
    """Return the title of a score, for display next to the title of its setting or measure.

    >>> score_title("accuracy", "class"), score_title("average_incremental_accuracy", "rmse")
    ('accuracy', 'average incremental')
    """
    title = (SCORES | MORE_SCORES)[score]
    if setting not in MEASURE_TITLES:
        return title
    return "final" if score == "accuracy" else title.removesuffix(" accuracy")


def of_classes(run: Result) -> bool:
    """Return True if a run is scored by accuracy, the only measure in figures and the report."""
    return not MEASURE_TITLES.keys() & run.accuracy.keys()


def counted(count: int, noun: str) -> str:
    """Format a number of things.

    >>> counted(1, "seed"), counted(3, "seed")
    ('1 seed', '3 seeds')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"


def decimals(value: float, setting: str) -> int:
    """Number of decimals to show: two for percentages, three significant digits for small values.

    >>> decimals(0.5, "class"), decimals(120.0, "rmse"), decimals(0.00123, "rmse")
    (2, 2, 5)
    """
    if setting in PERCENT or not math.isfinite(value) or not value:
        return 2
    return max(2, 2 - math.floor(math.log10(abs(value))))


def measured(results: Iterable[Result], scores: Iterable[str]) -> list[str]:
    """Return the scores that at least one run has in some setting."""
    runs = list(results)
    return [
        score
        for score in scores
        if any(value is not None for run in runs for value in getattr(run, score).values())
    ]


def method_title(run: Result) -> str:
    """Return the title of a run's method, including custom methods."""
    return run.method_title or title_of(run.method)


def meaningful(settings: Iterable[str]) -> list[str]:
    """Drop Task-IL if all tasks have the same classes, where knowing the task does not help.

    >>> meaningful(["class", "task"]), meaningful(["task", "domain"])
    (['class', 'task'], ['domain'])
    """
    found = list(settings)
    same = {"domain", "general"}.intersection(found)
    return [name for name in found if name != "task" or not same]


def settings_of(results: Iterable[Result]) -> list[str]:
    """Return the settings and measures of the runs, in display order."""
    return known_first((s for run in results for s in run.accuracy), SETTINGS | MEASURE_TITLES)


def known_first(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """Sort unique names in the order of `known`; unknown names follow alphabetically.

    >>> known_first(["mine", "b", "a", "b"], ["b", "a", "c"])
    ['b', 'a', 'mine']
    """
    rank = {name: index for index, name in enumerate(known)}
    return sorted(set(names), key=lambda name: (rank.get(name, len(rank)), name))
