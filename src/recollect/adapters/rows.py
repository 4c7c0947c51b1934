"""Train on weighted rows in batches: code common to the scikit-learn adapters."""

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
    """Context manager that restores all attributes of an estimator if its body fails."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise


def narrow(rows: np.ndarray) -> np.ndarray:
    """Convert rows to float32, the type that a learner stores."""
    with np.errstate(over="ignore"):
        found = rows.astype(np.float32, copy=False)
    if not np.isfinite(found).all():
        raise InputError("a value is too large for float32: scale the features first")
    return found


def weighted(
    rows: np.ndarray, y: np.ndarray, weight: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Check sample weights and drop rows of weight 0; the weights are None if all are 1."""
    if weight is None:
        return rows, y, None
    try:
        found = np.asarray(weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("sample_weight must be an array with one number for each row") from None
    if found.ndim == 0:
        found = np.full(len(rows), float(found))
    if found.shape != (len(rows),):
        raise InputError(
            f"sample_weight must have the shape [{len(rows)}], one weight for each row, not "
            f"{list(found.shape)}"
        )
    if not np.isfinite(found).all() or (found < 0).any():
        raise InputError("sample_weight must be finite numbers of at least 0")
    some = found > 0
    if not some.any():
        raise InputError("all entries of sample_weight are zero: there is nothing to learn")
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
    """Train on batches of `size` rows, in the given order (default: the order of the rows)."""
    indices = np.arange(len(rows)) if order is None else order
    for start in range(0, len(rows), size):
        some = indices[start : start + size]
        y = targets[some] if isinstance(targets, np.ndarray) else [targets[n] for n in some]
        learner.observe(rows[some], y, weight=None if weights is None else weights[some])


def continued(
    learner: Learner, rows: np.ndarray, targets: Any, size: int, weights: np.ndarray | None
) -> None:
    """Train on the rows in order; if a step fails, undo the earlier steps too."""
    # The failing step itself changes nothing, but the steps before it did.
    again, state = learner.__reduce__() if len(rows) > size else (None, ())
    try:
        observe(learner, rows, targets, size, weights)
    except BaseException:
        if again is not None:  # restore in place: others may hold this object
            learner.__dict__.update(vars(again(*state)))
        raise
