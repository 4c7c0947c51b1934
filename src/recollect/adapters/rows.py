"""Train on weighted rows in batches: the base of the scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from recollect.adapters.build import Arguments, learner_for, whole
from recollect.errors import InputError
from recollect.learner import Learner


@dataclass(eq=False, repr=False)
class Rows(Arguments, BaseEstimator):  # type: ignore[misc]
    """Base of the scikit-learn estimators: a learner that is trained on batches of rows."""

    batch: int = field(default=10, kw_only=True)
    epochs: int = field(default=10, kw_only=True)
    random_state: int | np.random.RandomState | None = field(default=None, kw_only=True)

    def _targets(self, y: Any) -> np.ndarray:
        """Check and convert validated targets."""
        raise NotImplementedError

    def _checked(
        self,
        X: Any,  # noqa: N803
        y: Any,
        weight: Any,
        *,
        reset: bool,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Return the rows and targets to learn, and their weights unless all are 1."""
        rows, found = validate_data(
            self, X, y, dtype=[np.float64, np.float32], reset=reset, multi_output=True
        )
        return _weighted(_narrow(rows), self._targets(found), weight)

    def _to_predict(self, X: Any) -> np.ndarray:  # noqa: N803
        check_is_fitted(self)
        return _narrow(validate_data(self, X, dtype=[np.float64, np.float32], reset=False))

    def _train_new(
        self,
        rows: np.ndarray,
        targets: np.ndarray,
        weights: np.ndarray | None,
        outputs: int,
        epochs: int,
        **options: Any,
    ) -> None:
        """Train a new learner: `epochs` shuffled passes, or if 0 one pass in order."""
        size = whole(self.batch, "batch")
        random = check_random_state(self.random_state)
        seed = int(random.randint(2**31 - 1))
        learner = learner_for(self, rows.shape[1], outputs, seed=seed, **options)
        for _ in range(epochs or 1):
            order = random.permutation(len(rows)) if epochs else np.arange(len(rows))
            _observe(learner, rows, targets, weights, size, order)
        self.learner_: Learner = learner

    def _continue(self, rows: np.ndarray, targets: np.ndarray, weights: np.ndarray | None) -> None:
        """Train on the rows in order; if a step fails, undo the earlier steps too."""
        size, learner = whole(self.batch, "batch"), self.learner_
        # The failing step itself changes nothing, but the steps before it did.
        again, state = learner.__reduce__() if len(rows) > size else (None, ())
        try:
            _observe(learner, rows, targets, weights, size, np.arange(len(rows)))
        except BaseException:
            if again is not None:  # restore in place: others may hold this object
                learner.__dict__.update(vars(again(*state)))
            raise


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


def _narrow(rows: np.ndarray) -> np.ndarray:
    """Convert rows to float32, the type that a learner stores."""
    with np.errstate(over="ignore"):
        found = rows.astype(np.float32, copy=False)
    if not np.isfinite(found).all():
        raise InputError("a value is too large for float32: scale the features first")
    return found


def _weighted(
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


def _observe(
    learner: Learner,
    rows: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray | None,
    size: int,
    order: np.ndarray,
) -> None:
    """Train on batches of `size` rows, in the given order."""
    for start in range(0, len(rows), size):
        some = order[start : start + size]
        y: Any = targets[some]
        if learner.target == "labels":  # one set of columns per row of an indicator matrix
            y = [set(np.flatnonzero(row).tolist()) for row in y]
        learner.observe(rows[some], y, weight=None if weights is None else weights[some])
