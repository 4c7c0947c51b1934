"""Map River's named features to the fixed number of inputs of a network."""

from __future__ import annotations

import secrets
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from recollect.adapters.build import Arguments, learner_for, whole
from recollect.errors import InputError
from recollect.learner import Learner

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Features"]


@dataclass(eq=False, repr=False)
class Features(Arguments):
    """Base of the River estimators: a learner whose network inputs are assigned to features."""

    features: int | None = field(default=None, kw_only=True)
    seed: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        # River's clone reads the first element of every tuple argument, and fails on an empty one.
        self.hidden = [] if self.hidden is not None and not len(self.hidden) else self.hidden
        self._learner: Learner | None = None
        self._inputs: dict[Hashable, int] = {}
        self._width = 0

    @property
    def learner(self) -> Learner | None:
        """The underlying `recollect.Learner`; None before the first example."""
        return self._learner

    @property
    def feature_names(self) -> list[Hashable]:
        """Names of the features in use, in the order of the network's inputs."""
        return list(self._inputs)

    def _learn(
        self,
        x: Mapping[Any, Any] | pd.DataFrame,
        labels: list[Any],
        weight: Any = 1.0,
        target: str = "class",
    ) -> None:
        """Take one training step on an example or a data frame; a failure changes nothing."""
        inputs, width, learner = self._inputs, self._width, self._learner
        if learner is None:
            width = len([*x]) if self.features is None else whole(self.features, "features")
            if not width:
                raise InputError("the first example has no features: it must have at least one")
            seed = secrets.randbelow(2**31) if self.seed is None else self.seed
            outputs = 1 if target == "regression" else len(set(labels)) or 1
            learner = learner_for(self, width, outputs, seed=seed, target=target)
        if len(inputs) < width:
            inputs = _with_new(inputs, x, width)
        if isinstance(weight, int | float) and weight == 1:
            weight = None
        learner.observe(rows_of(x, inputs, width), labels, weight=weight)
        self._learner, self._inputs, self._width = learner, inputs, width

    def _unit_test_skips(self) -> set[str]:
        # A frame is one step, not one for every row, as in River's own models of this kind.
        return {"check_learn_many_matches_learn_one"}

    def _rows(self, x: Mapping[Any, Any] | pd.DataFrame) -> np.ndarray:
        return rows_of(x, self._inputs, self._width)


def _with_new(
    inputs: Mapping[Hashable, int], names: Iterable[Hashable], width: int
) -> dict[Hashable, int]:
    """Assign unused inputs to new features.

    New features are sorted by name, so that the order of a dictionary does not matter.

    >>> _with_new({"b": 0}, ["d", "b", "c", "a"], 3)
    {'b': 0, 'a': 1, 'c': 2}
    """
    new = [name for name in names if name not in inputs]
    new.sort(key=lambda name: (type(name).__name__, str(name)))
    return {name: index for index, name in enumerate([*inputs, *new][:width])}


def rows_of(
    x: Mapping[Any, Any] | pd.DataFrame, inputs: Mapping[Hashable, int], width: int
) -> np.ndarray:
    """Convert an example, or a data frame with a column per feature, to inputs `[n, width]`."""
    if not isinstance(x, Mapping) and not x.columns.is_unique:
        raise InputError("the data frame has two columns of the same name: rename one of them")
    rows = np.zeros((1 if isinstance(x, Mapping) else len(x), width))
    for name in x:
        if name in inputs:
            if isinstance(x, Mapping):
                rows[0, inputs[name]] = _number(name, x[name])
                continue
            column = x[name].to_numpy()
            if column.dtype.kind not in "fiub":
                column = np.array([_number(name, value) for value in column])
            rows[:, inputs[name]] = column
    return rows


def _number(name: Hashable, value: Any) -> float:
    if isinstance(value, str | bytes):
        raise InputError(
            f"the feature {name!r} must be a number, not {value!r}: encode it first, for example "
            f"with river.preprocessing.OneHotEncoder"
        )
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"the feature {name!r} must be a number, not {value!r}") from None
