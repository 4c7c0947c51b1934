"""The learner as a classifier of River."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import numpy as np

from recollect.adapters.build import Arguments, learner_for, whole
from recollect.errors import InputError
from recollect.extras import needs
from recollect.learner import Learner

with needs("river", extra="river", what="RiverClassifier"):
    from river import base

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["RiverClassifier"]


@final
@dataclass(eq=False, repr=False)
class RiverClassifier(Arguments, base.MiniBatchClassifier):
    """A network that learns features as they arrive, one example at a time, and does not forget.

    The features are those of the first example that is learned, or as many as `features` says, in
    the order in which they appear. A feature that is missing from an example counts as 0. One for
    which there is no input left is ignored, for the network's size is fixed. Values are numbers.

    Labels are any hashable values, and new ones may arrive at any time. `learn_one` takes a step
    for one example, `learn_many` one step for a whole frame.

    Args:
        hidden: The sizes of the hidden layers of the default network, an MLP.
        module: A function `(inputs, outputs) -> torch.nn.Module` that makes another network.
        method: How it is learned: a name such as "derpp" or "er", or a `Method`.
        memory: A number of examples, or a size such as "64 MB".
        lr: The learning rate.
        replay: How many memories each draw of a step takes.
        optimiser: SGD, Adam, AdamW, or any of torch's, by name.
        optimiser_options: Arguments of one of torch's own optimisers.
        features: How many features there is room for; as many as the first example has if None.
        standardise: Whether features are brought to a mean of 0 and a deviation of 1, as seen so
            far, before the network; values further than 3 deviations from the mean are cut off.
        seed: A number, for the same result every time.
        device: Where it is computed.
        momentum: The momentum of SGD.
        nesterov: Whether it is Nesterov's.
        weight_decay: That of SGD, Adam and AdamW.
        beta1: The decay of Adam's mean of gradients.
        beta2: The decay of Adam's mean of squared gradients.
        eps: What is added to Adam's denominator.
        clip: The largest norm of a gradient.
        schedule: constant, step or cosine.
        schedule_steps: Over how many steps the schedule runs.
        warmup: Steps over which the learning rate rises.
        decay_every: Steps after which the schedule step decays.
        decay_factor: What it multiplies the learning rate by.

    >>> model = RiverClassifier(seed=0)
    >>> model.predict_one({"warm": 1.0, "wet": 0.0}) is None
    True
    >>> for _ in range(20):
    ...     model.learn_one({"warm": 1.0, "wet": 0.0}, "summer")
    ...     model.learn_one({"warm": 0.0, "wet": 1.0}, "autumn")
    >>> model.predict_one({"wet": 0.9})
    'autumn'
    """

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

    def learn_one(self, x: Mapping[Any, Any], y: Hashable) -> None:
        """Learn from the features and the label of one example."""
        self._learn(x, lambda inputs, width: _row(x, inputs, width), [y])

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """The probability of every label so far; of none before the first example."""
        if self._learner is None:
            return {}
        shares = self._learner.predict_proba(_row(x, self._inputs, self._width))[0]
        return dict(zip(self._learner.classes, shares.tolist(), strict=True))

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Any:
        """The most probable label; None before the first example."""
        shares = self.predict_proba_one(x)
        return max(shares, key=shares.__getitem__) if shares else None

    def learn_many(self, X: pd.DataFrame, y: pd.Series) -> None:  # noqa: N803
        """Learn from a frame, a column a feature, and its labels, in one step."""
        self._learn(X.columns, lambda inputs, width: _rows(X, inputs, width), list(y))

    def predict_many(self, X: pd.DataFrame) -> pd.Series:  # noqa: N803
        """The label of every row; None before the first example."""
        import pandas as pd

        shares = self.predict_proba_many(X)
        if shares.empty:
            return pd.Series([None] * len(X), index=X.index, dtype=object)
        labels = shares.columns.to_numpy()[shares.to_numpy().argmax(1)]
        return pd.Series(labels, index=X.index)

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:  # noqa: N803
        """The probability of every label so far, a column each, for every row."""
        import pandas as pd

        known = self._learner.classes if self._learner else []
        if self._learner is None or not len(X):
            return pd.DataFrame(index=X.index, columns=known, dtype=float)
        shares = self._learner.predict_proba(_rows(X, self._inputs, self._width))
        return pd.DataFrame(shares, index=X.index, columns=known)

    @property
    def _multiclass(self) -> bool:
        return True

    def _unit_test_skips(self) -> set[str]:
        # A frame is one step, not one for every row, as in River's own models of this kind.
        return {"check_learn_many_matches_learn_one"}

    def _learn(
        self,
        names: Iterable[Hashable],
        rows: Callable[[Mapping[Hashable, int], int], np.ndarray],
        labels: list[Any],
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
            learner = learner_for(self, width, len(set(labels)) or 1, seed=seed)
            names = found
        if len(inputs) < width:
            inputs = _with_new(inputs, names, width)
        learner.observe(rows(inputs, width), labels)
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


def _row(x: Mapping[Any, Any], inputs: Mapping[Hashable, int], width: int) -> np.ndarray:
    """The features of one example as inputs of the network, `[1, width]`."""
    row = np.zeros((1, width))
    for name, value in x.items():
        if name in inputs:
            row[0, inputs[name]] = _number(name, value)
    return row


def _rows(frame: pd.DataFrame, inputs: Mapping[Hashable, int], width: int) -> np.ndarray:
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
