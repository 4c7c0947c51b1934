"""The learner as a regressor of River."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from recollect.adapters.river_features import Features, row_of, rows_of
from recollect.extras import needs

with needs("river", extra="river", what="RiverRegressor"):
    from river import base

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["RiverRegressor"]


@final
@dataclass(eq=False, repr=False)
class RiverRegressor(Features, base.MiniBatchRegressor):
    """A network that estimates a number, one example at a time, and does not forget.

    Features are those of a `RiverClassifier`. Targets are scaled as they come.

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

    >>> model = RiverRegressor(seed=0)
    >>> for n in range(200):
    ...     model.learn_one({"size": n % 10}, 50.0 + 3 * (n % 10))
    >>> 60 < model.predict_one({"size": 6}) < 76
    True
    """

    def learn_one(self, x: Mapping[Any, Any], y: float, w: float = 1.0) -> None:
        """Learn from the features and the value of one example, whose loss is multiplied by w."""
        self._learn(x, lambda inputs, width: row_of(x, inputs, width), [y], w, "regression")

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> float:
        """The value that is estimated; 0 before the first example."""
        if self._learner is None or not self._learner.steps:
            return 0.0
        return float(self._learner.predict(row_of(x, self._inputs, self._width))[0])

    def learn_many(self, X: pd.DataFrame, y: pd.Series, w: Any = 1.0) -> None:  # noqa: N803
        """Learn from a frame, a column a feature, and its values, in one step."""
        rows = lambda inputs, width: rows_of(X, inputs, width)  # noqa: E731
        self._learn(X.columns, rows, list(y), w, "regression")

    def predict_many(self, X: pd.DataFrame) -> pd.Series:  # noqa: N803
        """The value of every row; 0 before the first example."""
        import pandas as pd

        if self._learner is None or not self._learner.steps or not len(X):
            return pd.Series(0.0, index=X.index)
        found = self._learner.predict(rows_of(X, self._inputs, self._width))
        return pd.Series(found, index=X.index)

    def _unit_test_skips(self) -> set[str]:
        # A frame is one step, not one for every row, as in River's own models of this kind.
        return {"check_learn_many_matches_learn_one"}
