"""River estimators around `recollect.Learner`."""

from __future__ import annotations

import secrets
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import numpy as np
from river import base

from recollect.adapters.build import Arguments, learner_for, whole
from recollect.errors import InputError
from recollect.learner import Learner

if TYPE_CHECKING:
    import pandas as pd


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
        learner.observe(_rows_of(x, inputs, width), labels, weight=weight)
        self._learner, self._inputs, self._width = learner, inputs, width

    def _unit_test_skips(self) -> set[str]:
        # A frame is one step, not one for every row, as in River's own models of this kind.
        return {"check_learn_many_matches_learn_one"}

    def _rows(self, x: Mapping[Any, Any] | pd.DataFrame) -> np.ndarray:
        return _rows_of(x, self._inputs, self._width)


@final
@dataclass(eq=False, repr=False)
class RiverClassifier(Features, base.MiniBatchClassifier):
    """Continual learning classifier for River: a neural network with replay.

    The network has one input for each feature of the first example, or `features` inputs, which
    are assigned to features in order of appearance. Feature values must be numbers. A missing
    feature counts as 0. As the network's size is fixed, new features are ignored once every input
    is assigned.

    Labels are any hashable values, and new ones may appear at any time. `learn_one` takes one
    training step for an example, `learn_many` one step for a whole data frame. The arguments from
    `momentum` to `decay_factor` are those of `recollect.Learner`.

    Args:
        hidden: Sizes of the hidden layers of the default network, an MLP. If None, two layers of
            100 units, or no hidden layer for closed-form methods such as "slda".
        module: Function `(inputs, outputs) -> torch.nn.Module` that builds the network.
        method: Continual learning method: a name such as "derpp" or "er", or a `Method`. If None,
            DER++ with alpha = 0.1 and beta = 1.
        memory: Size of the replay memory: a number of examples, or a size such as "64 MB".
        lr: Learning rate.
        replay: Number of examples in each batch sampled from memory.
        optimiser: "SGD", "Adam", "AdamW", or the name of a class in `torch.optim`.
        optimiser_options: Keyword arguments for an optimiser of `torch.optim`.
        features: Number of network inputs. If None, the number of features in the first example.
        standardise: If True, standardise the features with the mean and standard deviation of
            the examples seen so far, and clip them to 3 standard deviations.
        seed: Random seed, for reproducible results. If None, it is random.
        device: Device to train and predict on, such as "cpu" or "cuda".

    >>> model = RiverClassifier(seed=0)
    >>> model.predict_one({"warm": 1.0, "wet": 0.0}) is None
    True
    >>> for _ in range(20):
    ...     model.learn_one({"warm": 1.0, "wet": 0.0}, "summer")
    ...     model.learn_one({"warm": 0.0, "wet": 1.0}, "autumn")
    >>> model.predict_one({"wet": 0.9})
    'autumn'
    """

    def learn_one(self, x: Mapping[Any, Any], y: Hashable, w: float = 1.0) -> None:
        """Learn from one example; `w` multiplies its loss."""
        self._learn(x, [y], w)

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """Predict the probability of each known label; empty before the first example."""
        if self._learner is None:
            return {}
        shares = self._learner.predict_proba(self._rows(x))[0]
        return dict(zip(self._learner.classes, shares.tolist(), strict=True))

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Any:
        """Predict the most probable label; None before the first example."""
        shares = self.predict_proba_one(x)
        return max(shares, key=shares.__getitem__) if shares else None

    def learn_many(self, X: pd.DataFrame, y: pd.Series, w: Any = 1.0) -> None:  # noqa: N803
        """Learn from a data frame with one column per feature, in one training step."""
        self._learn(X, list(y), w)

    def predict_many(self, X: pd.DataFrame) -> pd.Series:  # noqa: N803
        """Predict the label of each row; None before the first example."""
        import pandas as pd

        shares = self.predict_proba_many(X)
        if shares.empty:
            return pd.Series([None] * len(X), index=X.index, dtype=object)
        labels = shares.columns.to_numpy()[shares.to_numpy().argmax(1)]
        return pd.Series(labels, index=X.index)

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:  # noqa: N803
        """Predict the probability of each known label (columns) for each row."""
        import pandas as pd

        known = self._learner.classes if self._learner else []
        if self._learner is None or not len(X):
            return pd.DataFrame(index=X.index, columns=known, dtype=float)
        shares = self._learner.predict_proba(self._rows(X))
        return pd.DataFrame(shares, index=X.index, columns=known)

    @property
    def _multiclass(self) -> bool:
        return True


@final
@dataclass(eq=False, repr=False)
class RiverRegressor(Features, base.MiniBatchRegressor):
    """Continual learning regressor for River: a neural network with replay.

    The arguments are those of `RiverClassifier`, and features are handled in the same way. Targets
    are standardised with the statistics of the examples seen so far.

    >>> model = RiverRegressor(seed=0)
    >>> for n in range(200):
    ...     model.learn_one({"size": n % 10}, 50.0 + 3 * (n % 10))
    >>> 60 < model.predict_one({"size": 6}) < 76
    True
    """

    def learn_one(self, x: Mapping[Any, Any], y: float, w: float = 1.0) -> None:
        """Learn from one example; `w` multiplies its loss."""
        self._learn(x, _single([y]), w, "regression")

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> float:
        """Predict the target of one example; 0 before the first example."""
        if self._learner is None or not self._learner.steps:
            return 0.0
        return float(self._learner.predict(self._rows(x))[0])

    def learn_many(self, X: pd.DataFrame, y: pd.Series, w: Any = 1.0) -> None:  # noqa: N803
        """Learn from a data frame with one column per feature, in one training step."""
        self._learn(X, _single(list(y)), w, "regression")

    def predict_many(self, X: pd.DataFrame) -> pd.Series:  # noqa: N803
        """Predict the target of each row; 0 before the first example."""
        import pandas as pd

        if self._learner is None or not self._learner.steps or not len(X):
            return pd.Series(0.0, index=X.index)
        return pd.Series(self._learner.predict(self._rows(X)), index=X.index)


def _single(values: list[Any]) -> list[Any]:
    """Refuse targets that are not scalars: River has a separate class for several targets."""
    for value in values:
        if np.ndim(value):
            raise InputError(
                f"RiverRegressor needs one number as the target of an example, not {value!r:.60}"
            )
    return values


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


def _rows_of(
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
