"""River regressor around `recollect.Learner`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from recollect.adapters.river_features import Features, row_of, rows_of
from recollect.errors import InputError
from recollect.extras import needs

with needs("river", extra="river", what="RiverRegressor"):
    from river import base

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["RiverRegressor"]


@final
@dataclass(eq=False, repr=False)
class RiverRegressor(Features, base.MiniBatchRegressor):
    """Continual learning regressor for River: a neural network with replay.

    Features are handled as in `RiverClassifier`. Targets are standardised with the statistics of
    the examples seen so far.

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
        momentum: Momentum factor of SGD.
        nesterov: If True, use Nesterov momentum with SGD.
        weight_decay: Weight decay of SGD, Adam or AdamW.
        beta1: Decay rate of the running mean of gradients, for Adam and AdamW.
        beta2: Decay rate of the running mean of squared gradients, for Adam and AdamW.
        eps: Term added to the denominator for numerical stability, for Adam and AdamW.
        clip: Maximum gradient norm; larger gradients are scaled down to it.
        schedule: Learning rate schedule: "constant", "step" or "cosine".
        schedule_steps: Number of steps over which the schedule runs.
        warmup: Number of steps of linear learning rate warmup.
        decay_every: Number of steps between two decays of the "step" schedule.
        decay_factor: Factor of each decay of the "step" schedule.

    >>> model = RiverRegressor(seed=0)
    >>> for n in range(200):
    ...     model.learn_one({"size": n % 10}, 50.0 + 3 * (n % 10))
    >>> 60 < model.predict_one({"size": 6}) < 76
    True
    """

    def learn_one(self, x: Mapping[Any, Any], y: float, w: float = 1.0) -> None:
        """Learn from one example; `w` multiplies its loss."""
        self._learn(
            x, lambda inputs, width: row_of(x, inputs, width), _single([y]), w, "regression"
        )

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> float:
        """Predict the target of one example; 0 before the first example."""
        if self._learner is None or not self._learner.steps:
            return 0.0
        return float(self._learner.predict(row_of(x, self._inputs, self._width))[0])

    def learn_many(self, X: pd.DataFrame, y: pd.Series, w: Any = 1.0) -> None:  # noqa: N803
        """Learn from a data frame with one column per feature, in one training step."""
        rows = lambda inputs, width: rows_of(X, inputs, width)  # noqa: E731
        self._learn(X.columns, rows, _single(list(y)), w, "regression")

    def predict_many(self, X: pd.DataFrame) -> pd.Series:  # noqa: N803
        """Predict the target of each row; 0 before the first example."""
        import pandas as pd

        if self._learner is None or not self._learner.steps or not len(X):
            return pd.Series(0.0, index=X.index)
        found = self._learner.predict(rows_of(X, self._inputs, self._width))
        return pd.Series(found, index=X.index)

    def _unit_test_skips(self) -> set[str]:
        # A data frame is one training step, not one for each row, as in River's own neural models.
        return {"check_learn_many_matches_learn_one"}


def _single(values: list[Any]) -> list[Any]:
    """Refuse targets that are not scalars: River has a separate class for several targets."""
    for value in values:
        if np.ndim(value):
            raise InputError(
                f"RiverRegressor needs one number as the target of an example, not {value!r:.60}"
            )
    return values
