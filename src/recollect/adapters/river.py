"""The learner as a classifier of River."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from recollect.adapters.river_features import Features, row_of, rows_of
from recollect.extras import needs

with needs("river", extra="river", what="RiverClassifier"):
    from river import base

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["RiverClassifier"]


@final
@dataclass(eq=False, repr=False)
class RiverClassifier(Features, base.MiniBatchClassifier):
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

    def learn_one(self, x: Mapping[Any, Any], y: Hashable, w: float = 1.0) -> None:
        """Learn from the features and the label of one example, whose loss is multiplied by w."""
        self._learn(x, lambda inputs, width: row_of(x, inputs, width), [y], w)

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """The probability of every label so far; of none before the first example."""
        if self._learner is None:
            return {}
        shares = self._learner.predict_proba(row_of(x, self._inputs, self._width))[0]
        return dict(zip(self._learner.classes, shares.tolist(), strict=True))

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Any:
        """The most probable label; None before the first example."""
        shares = self.predict_proba_one(x)
        return max(shares, key=shares.__getitem__) if shares else None

    def learn_many(self, X: pd.DataFrame, y: pd.Series, w: Any = 1.0) -> None:  # noqa: N803
        """Learn from a frame, a column a feature, and its labels, in one step."""
        self._learn(X.columns, lambda inputs, width: rows_of(X, inputs, width), list(y), w)

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
        shares = self._learner.predict_proba(rows_of(X, self._inputs, self._width))
        return pd.DataFrame(shares, index=X.index, columns=known)

    @property
    def _multiclass(self) -> bool:
        return True

    def _unit_test_skips(self) -> set[str]:
        # A frame is one step, not one for every row, as in River's own models of this kind.
        return {"check_learn_many_matches_learn_one"}
