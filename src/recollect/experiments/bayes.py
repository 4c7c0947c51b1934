"""Bayesian hyper-parameter search with Optuna; each batch of trials trains as one fleet."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from recollect.errors import InputError
from recollect.extras import needs

BATCH = 16
SIZES = ("bs", "mbs")


def bayesian(
    axes: Mapping[str, Sequence[float]],
    trials: int,
    score: Callable[[Sequence[Mapping[str, float]]], Sequence[float]],
    *,
    whole: Collection[str] = SIZES,
    seed: int = 0,
    batch: int = BATCH,
) -> list[dict[str, float]]:
    """Evaluate `trials` points within the bounds of each axis, and return all points.

    The bounds of an axis are its smallest and largest values; an axis with one value is fixed.
    `score` trains a batch of points and returns the score of each. Values are sampled on a
    logarithmic scale where the bounds are positive. Axes named in `whole` get integers.
    """
    with needs("optuna", extra="search", what="Bayesian search"):
        import optuna
    if trials < 1:
        raise InputError(f"the number of trials must be at least 1, not {trials}")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():  # before version 5, constant_liar was experimental
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    tried: list[dict[str, float]] = []
    while len(tried) < trials:
        asked = [study.ask() for _ in range(min(batch, trials - len(tried)))]
        points = [
            {name: _suggested(trial, name, values, name in whole) for name, values in axes.items()}
            for trial in asked
        ]
        for trial, value in zip(asked, score(points), strict=True):
            study.tell(trial, value)
        tried += points
    return tried


def _suggested(trial: Any, name: str, values: Sequence[float], whole: bool) -> float:
    low, high = min(values), max(values)
    if low == high:
        return float(low)
    if whole:
        return float(trial.suggest_int(name, int(low), int(high), log=low >= 1))
    return float(trial.suggest_float(name, low, high, log=low > 0))
