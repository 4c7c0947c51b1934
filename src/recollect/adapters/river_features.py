"""Features by name, as River gives them, for a learner with a fixed number of inputs."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from recollect.adapters.build import Arguments, learner_for, whole
from recollect.errors import InputError
from recollect.learner import Learner

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Features", "row_of", "rows_of"]


@dataclass(eq=False, repr=False)
class Features(Arguments):
    """A learner of features by name: as many as the first example has, or as `features` says."""

    features: int | None = field(default=None, kw_only=True)
    seed: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        # River's clone looks at the first element of every argument that is a tuple.
        self.hidden = self.hidden if len(self.hidden) else []
        self._learner: Learner | None = None
        self._inputs: dict[Hashable, int] = {}
        self._width = 0

    @property
    def learner(self) -> Learner | None:
        """The `recollect.Learner`, for its metrics or to save it; None before the first example."""
        return self._learner

    @property
    def feature_names(self) -> list[Hashable]:
        """The features it uses, in the order of the network's inputs."""
        return list(self._inputs)

    def _learn(
        self,
        names: Iterable[Hashable],
        rows: Callable[[Mapping[Hashable, int], int], np.ndarray],
        labels: list[Any],
        weight: Any = 1.0,
        target: str = "class",
    ) -> None:
        """One step with the rows that `rows` makes for these inputs; a failure changes nothing."""
        inputs, width = self._inputs, self._width
        learner = self._learner
        if learner is None:
            found = list(names)
            width = len(found) if self.features is None else whole(self.features, "features")
            if not width:
                raise InputError("the first example has no features: it must have at least one")
            seed = secrets.randbelow(2**31) if self.seed is None else self.seed
            outputs = 1 if target == "regression" else len(set(labels)) or 1
            learner = learner_for(self, width, outputs, seed=seed, target=target)
            names = found
        if len(inputs) < width:
            inputs = _with_new(inputs, names, width)
        if isinstance(weight, int | float) and weight == 1:
            weight = None
        learner.observe(rows(inputs, width), labels, weight=weight)
        self._learner, self._inputs, self._width = learner, inputs, width


def _with_new(
    inputs: Mapping[Hashable, int], names: Iterable[Hashable], width: int
) -> dict[Hashable, int]:
    """The input of each feature, with new features while there is room.

    Within an example they are sorted, so that the order of a dictionary does not matter.

    >>> _with_new({"b": 0}, ["d", "b", "c", "a"], 3)
    {'b': 0, 'a': 1, 'c': 2}
    """
    new = [name for name in names if name not in inputs]
    new.sort(key=lambda name: (type(name).__name__, str(name)))
    return {name: index for index, name in enumerate([*inputs, *new][:width])}


def row_of(x: Mapping[Any, Any], inputs: Mapping[Hashable, int], width: int) -> np.ndarray:
    """The features of one example as inputs of the network, `[1, width]`."""
    row = np.zeros((1, width))
    for name, value in x.items():
        if name in inputs:
            row[0, inputs[name]] = _number(name, value)
    return row


def rows_of(frame: pd.DataFrame, inputs: Mapping[Hashable, int], width: int) -> np.ndarray:
    """The columns of a frame as inputs of the network, `[n, width]`."""
    if not frame.columns.is_unique:
        raise InputError("a feature occurs twice among the columns")
    rows = np.zeros((len(frame), width))
    for name in frame.columns:
        if name in inputs:
            column = frame[name].to_numpy()
            if column.dtype.kind not in "fiub":
                column = np.array([_number(name, value) for value in column])
            rows[:, inputs[name]] = column
    return rows


def _number(name: Hashable, value: Any) -> float:
    if isinstance(value, str | bytes):
        raise InputError(
            f"the feature {name!r} is {value!r}, and a number is needed: encode it before, such as "
            f"by river.preprocessing.OneHotEncoder"
        )
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"the feature {name!r} is {value!r}, and a number is needed") from None
