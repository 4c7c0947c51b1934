"""The learner as a regressor of scikit-learn."""

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
    """A network that estimates a value, or several, of rows of numbers, and does not forget.

    `fit` starts afresh and takes `epochs` passes over the data, shuffled. `partial_fit` continues
    with the rows in their order, `batch` of them a step. What either refuses changes nothing.

    Args:
        hidden: The sizes of the hidden layers of the default network, an MLP.
        module: A function `(inputs, outputs) -> torch.nn.Module` that makes another network.
        method: How it is learned: a name such as "derpp" or "er", or a `Method`.
        memory: A number of examples, or a size such as "64 MB".
        lr: The learning rate.
        replay: How many memories each draw of a step takes.
        optimiser: SGD, Adam, AdamW, or any of torch's, by name.
        optimiser_options: Arguments of one of torch's own optimisers.
        batch: How many rows make a step.
        epochs: How often `fit` goes through the data.
        standardise: Whether features are brought to a mean of 0 and a deviation of 1, as seen so
            far, before the network; values further than 3 deviations from the mean are cut off.
        random_state: A number, for the same result every time.
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

    Attributes:
        learner_: The `recollect.Learner`, for its metrics or to save it.
        n_features_in_: How many features a row has.
        feature_names_in_: Their names, if a data frame was learned from.

    >>> from sklearn.datasets import load_diabetes
    >>> x, y = load_diabetes(return_X_y=True)
    >>> SklearnRegressor(epochs=5, random_state=0).fit(x, y).score(x, y) > 0.4
    True
    """

    batch: int = field(default=10, kw_only=True)
    epochs: int = field(default=10, kw_only=True)
    random_state: int | np.random.RandomState | None = field(default=None, kw_only=True)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803
        """Forget everything, and learn from rows `[n, features]` and values `[n]` or `[n, values]`.

        `sample_weight` `[n]` multiplies the losses of rows; those with a weight of 0 are left out.
        """
        with whole_or_not(self):
            self._begin(X, y, sample_weight, whole(self.epochs, "epochs"))
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803
        """Go on with rows `[n, features]` and values `[n]` or `[n, values]`, in this order."""
        with whole_or_not(self):
            if not hasattr(self, "learner_"):
                self._begin(X, y, sample_weight)
            else:
                rows, values, weights = self._checked(X, y, sample_weight, reset=False)
                if values.shape[1:] != self._shape:
                    raise InputError(
                        f"y has the shape {list(values.shape)}, and a row had the values "
                        f"{list(self._shape)} earlier"
                    )
                continued(self.learner_, rows, values, whole(self.batch, "batch"), weights)
        return self

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """The values of every row, `[n]` or `[n, values]`, as they were learned."""
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
