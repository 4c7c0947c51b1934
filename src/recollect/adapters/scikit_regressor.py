"""Scikit-learn regressor around `recollect.Learner`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self, final

import numpy as np

from recollect.adapters.build import Arguments, learner_for, whole
from recollect.adapters.rows import continued, narrow, observe, weighted, whole_or_not
from recollect.errors import InputError
from recollect.extras import needs
from recollect.learner import Learner

with needs("sklearn", extra="sklearn", what="SklearnRegressor"):
    from sklearn.base import BaseEstimator, RegressorMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import check_is_fitted, validate_data

__all__ = ["SklearnRegressor"]


@final
@dataclass(eq=False, repr=False)
class SklearnRegressor(RegressorMixin, Arguments, BaseEstimator):  # type: ignore[misc]
    """Continual learning regressor for scikit-learn: a neural network with replay.

    `fit` trains a new network for `epochs` passes over the shuffled data. `partial_fit` continues
    training on batches of `batch` rows, in the given order. A call that fails changes nothing.

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
        batch: Number of rows in each training step.
        epochs: Number of passes of `fit` over the data.
        standardise: If True, standardise the features with the mean and standard deviation of
            the examples seen so far, and clip them to 3 standard deviations.
        random_state: Random seed or `RandomState`, for reproducible results.
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

    Attributes:
        learner_: The underlying `recollect.Learner`, for metrics or for saving.
        n_features_in_: Number of features seen during `fit`.
        feature_names_in_: Names of the features, if the data was a data frame.

    >>> from sklearn.datasets import load_diabetes
    >>> x, y = load_diabetes(return_X_y=True)
    >>> SklearnRegressor(epochs=5, random_state=0).fit(x, y).score(x, y) > 0.4
    True
    """

    batch: int = field(default=10, kw_only=True)
    epochs: int = field(default=10, kw_only=True)
    random_state: int | np.random.RandomState | None = field(default=None, kw_only=True)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803
        """Train a new network on rows `[n, features]` with targets `[n]` or `[n, outputs]`.

        `sample_weight` `[n]` multiplies the losses of the rows; rows of weight 0 are skipped.
        """
        with whole_or_not(self):
            self._begin(X, y, sample_weight, whole(self.epochs, "epochs"))
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803
        """Continue training on rows `[n, features]` with targets `[n]` or `[n, outputs]`."""
        with whole_or_not(self):
            if not hasattr(self, "learner_"):
                self._begin(X, y, sample_weight)
            else:
                rows, values, weights = self._checked(X, y, sample_weight, reset=False)
                if values.shape[1:] != self._shape:
                    shape = ", ".join(["n", *map(str, self._shape)])
                    raise InputError(
                        f"y must have the shape [{shape}] as in earlier calls, not "
                        f"{list(values.shape)}"
                    )
                continued(self.learner_, rows, values, whole(self.batch, "batch"), weights)
        return self

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """Predict targets, `[n]` or `[n, outputs]` as in training."""
        check_is_fitted(self)
        rows = narrow(validate_data(self, X, dtype=[np.float64, np.float32], reset=False))
        found: np.ndarray = self.learner_.predict(rows)
        return found.reshape(len(rows), *self._shape)

    def _begin(self, X: Any, y: Any, weight: Any, epochs: int = 0) -> None:  # noqa: N803
        rows, values, weights = self._checked(X, y, weight, reset=True)
        size, outputs = whole(self.batch, "batch"), values.shape[1] if values.ndim == 2 else 1
        random = check_random_state(self.random_state)
        seed = int(random.randint(2**31 - 1))
        learner = learner_for(self, rows.shape[1], outputs, seed=seed, target="regression")
        for _ in range(epochs or 1):
            order = random.permutation(len(rows)) if epochs else None
            observe(learner, rows, values, size, weights, order)
        self.learner_: Learner = learner
        self._shape: tuple[int, ...] = values.shape[1:]

    def _checked(
        self,
        X: Any,  # noqa: N803
        y: Any,
        weight: Any,
        *,
        reset: bool,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        rows, values = validate_data(
            self, X, y, dtype=[np.float64, np.float32], reset=reset, multi_output=True,
            y_numeric=True,
        )  # fmt: skip
        return weighted(narrow(rows), np.asarray(values, dtype=np.float64), weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
