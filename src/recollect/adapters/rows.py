"""Rows with weights, learned a few a step; what the adapters of scikit-learn share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from recollect.errors import InputError
from recollect.learner import Learner

__all__ = ["continued", "narrow", "observe", "weighted", "whole_or_not"]


@contextmanager
def whole_or_not(estimator: Any) -> Iterator[None]:
    """Meanwhile, what fails leaves every attribute of an estimator as it was."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise


def narrow(rows: np.ndarray) -> np.ndarray:
    """The rows in 32 bits, as a learner keeps them."""
    with np.errstate(over="ignore"):
        found = rows.astype(np.float32, copy=False)
    if not np.isfinite(found).all():
        raise InputError("a value is too large for 32 bits: scale the features first")
    return found


def weighted(
    rows: np.ndarray, y: np.ndarray, weight: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Rows, targets and weights, without those whose weight is 0; no weights if all are 1."""
    if weight is None:
        return rows, y, None
    try:
        found = np.asarray(weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("sample_weight must be numbers, one for each row") from None
    if found.ndim == 0:
        found = np.full(len(rows), float(found))
    if found.shape != (len(rows),):
        raise InputError(
            f"sample_weight has the shape {list(found.shape)}, and there are {len(rows)} rows"
        )
    if not np.isfinite(found).all() or (found < 0).any():
        raise InputError("sample_weight must be finite numbers of at least 0")
    some = found > 0
    if not some.any():
        raise InputError("every sample_weight is zero: there is nothing to learn")
    rows, y, found = rows[some], y[some], found[some]
    return rows, y, None if bool((found == 1).all()) else found


def observe(
    learner: Learner,
    rows: np.ndarray,
    targets: Any,
    size: int,
    weights: np.ndarray | None = None,
    order: np.ndarray | None = None,
) -> None:
    """Learn in this order (or that of the rows), so many rows a step."""
    places = np.arange(len(rows)) if order is None else order
    for start in range(0, len(rows), size):
        some = places[start : start + size]
        y = targets[some] if isinstance(targets, np.ndarray) else [targets[n] for n in some]
        learner.observe(rows[some], y, weight=None if weights is None else weights[some])


def continued(
    learner: Learner, rows: np.ndarray, targets: Any, size: int, weights: np.ndarray | None
) -> None:
    """Learn in the order of the rows; if a step fails, the steps before it are undone too."""
    # A step that fails changes nothing, but those before it did.
    again, state = learner.__reduce__() if len(rows) > size else (None, ())
    try:
        observe(learner, rows, targets, size, weights)
    except BaseException:
        if again is not None:  # the same object, for others may hold it
            learner.__dict__.update(vars(again(*state)))
        raise
