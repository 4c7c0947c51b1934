"""Scikit-learn estimators around `recollect.Learner`."""

from __future__ import annotations

from typing import Any, Self, final

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from recollect.adapters.build import whole
from recollect.adapters.rows import Rows, whole_or_not
from recollect.errors import InputError


@final
class SklearnClassifier(ClassifierMixin, Rows):  # type: ignore[misc]
    """Continual learning classifier for scikit-learn: a neural network with replay.

    `fit` trains a new network for `epochs` passes over the shuffled data. `partial_fit` continues
    training on batches of `batch` rows, in the given order. New classes may appear at any call of
    `partial_fit`, unless the first call lists all `classes`. A call that fails changes nothing. The
    arguments from `momentum` to `decay_factor` are those of `recollect.Learner`.

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

    Attributes:
        classes_: Sorted class labels; the columns of `predict_proba` follow this order.
        learner_: The underlying `recollect.Learner`, for metrics or for saving.
        n_features_in_: Number of features seen during `fit`.
        feature_names_in_: Names of the features, if the data was a data frame.

    >>> from sklearn.datasets import load_iris
    >>> x, y = load_iris(return_X_y=True)
    >>> SklearnClassifier(epochs=5, random_state=0).fit(x, y).score(x, y) > 0.9
    True
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803
        """Train a new network on rows `[n, features]` with labels `[n]`.

        For multi-label classification, y is a binary indicator matrix `[n, labels]`.
        `sample_weight` `[n]` multiplies the losses of the rows; rows of weight 0 are skipped.
        """
        with whole_or_not(self):
            self._begin(X, y, sample_weight, epochs=whole(self.epochs, "epochs"))
        return self

    def partial_fit(
        self,
        X: Any,  # noqa: N803
        y: Any,
        classes: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Continue training on rows `[n, features]` with labels `[n]`, in the given order.

        `classes` is optional. If the first call gives it, later labels must be among them.
        """
        with whole_or_not(self):
            if not hasattr(self, "learner_"):
                self._begin(X, y, sample_weight, classes)
            else:
                self._go_on(X, y, sample_weight, classes)
        return self

    def _begin(
        self,
        X: Any,  # noqa: N803
        y: Any,
        weight: Any,
        classes: Any = None,
        epochs: int = 0,
    ) -> None:
        """Train a new learner: `epochs` shuffled passes, or if 0 one pass in order."""
        rows, labels, weights = self._checked(X, y, weight, reset=True)
        target = "class" if labels.ndim == 1 else "labels"
        if target == "labels":
            known = classes = np.arange(labels.shape[1])
        else:
            known = np.unique(labels if classes is None else np.asarray(classes))
            _refuse_unknown(labels, known)
        listed = None if classes is None else known.tolist()
        self._train_new(rows, labels, weights, len(known), epochs, classes=listed, target=target)
        self.classes_: np.ndarray = known
        self._listed = listed is not None

    def _go_on(self, X: Any, y: Any, weight: Any, classes: Any) -> None:  # noqa: N803
        rows, labels, weights = self._checked(X, y, weight, reset=False)
        if (labels.ndim == 2) != (self.learner_.target == "labels"):
            raise InputError(
                "y must have the same form as in earlier calls: labels [n], or a binary indicator "
                "matrix [n, labels]"
            )
        if labels.ndim == 2 and labels.shape[1] != len(self.classes_):
            raise InputError(
                f"y must have {len(self.classes_)} columns as in earlier calls, not "
                f"{labels.shape[1]}"
            )
        if classes is not None and set(np.asarray(classes).tolist()) != set(self.classes_.tolist()):
            raise InputError(
                f"classes cannot change after the first call of partial_fit: they are "
                f"{self.classes_.tolist()}, not {np.asarray(classes).tolist()}"
            )
        if self._listed and labels.ndim == 1:
            _refuse_unknown(labels, self.classes_)
        self._continue(rows, labels, weights)
        if labels.ndim == 1:
            self.classes_ = np.union1d(self.classes_, labels)

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """Predict labels `[n]`, or for multi-label data an indicator matrix `[n, labels]`."""
        shares = self.predict_proba(X)
        if self.learner_.target == "labels":
            return (shares > 0.5).astype(np.int64)
        labels: np.ndarray = self.classes_[shares.argmax(1)]
        return labels

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """Predict class probabilities `[n, classes]`, in the order of `classes_`."""
        rows = self._to_predict(X)
        columns = {label: column for column, label in enumerate(self.classes_.tolist())}
        shares = np.zeros((len(rows), len(columns)))
        shares[:, [columns[label] for label in self.learner_.classes]] = (
            self.learner_.predict_proba(rows)
        )
        return shares

    def _targets(self, y: Any) -> np.ndarray:
        check_classification_targets(y)
        several = type_of_target(y) == "multilabel-indicator"
        return np.asarray(y) if several else column_or_1d(y, warn=True)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


def _refuse_unknown(labels: np.ndarray, known: np.ndarray) -> None:
    new = np.setdiff1d(labels, known)
    if len(new):
        raise InputError(
            f"the label {new[0]!r} is not one of the classes given to the first call of "
            f"partial_fit: {known.tolist()}"
        )


@final
class SklearnRegressor(RegressorMixin, Rows):  # type: ignore[misc]
    """Continual learning regressor for scikit-learn: a neural network with replay.

    `fit` trains a new network for `epochs` passes over the shuffled data. `partial_fit` continues
    training on batches of `batch` rows, in the given order. A call that fails changes nothing. The
    arguments are those of `SklearnClassifier`.

    Attributes:
        learner_: The underlying `recollect.Learner`, for metrics or for saving.
        n_features_in_: Number of features seen during `fit`.
        feature_names_in_: Names of the features, if the data was a data frame.

    >>> from sklearn.datasets import load_diabetes
    >>> x, y = load_diabetes(return_X_y=True)
    >>> SklearnRegressor(epochs=5, random_state=0).fit(x, y).score(x, y) > 0.4
    True
    """

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
                return self
            rows, values, weights = self._checked(X, y, sample_weight, reset=False)
            if values.shape[1:] != self._shape:
                shape = ", ".join(["n", *map(str, self._shape)])
                raise InputError(
                    f"y must have the shape [{shape}] as in earlier calls, not {list(values.shape)}"
                )
            self._continue(rows, values, weights)
        return self

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """Predict targets, `[n]` or `[n, outputs]` as in training."""
        rows = self._to_predict(X)
        found: np.ndarray = self.learner_.predict(rows)
        return found.reshape(len(rows), *self._shape)

    def _begin(self, X: Any, y: Any, weight: Any, epochs: int = 0) -> None:  # noqa: N803
        rows, values, weights = self._checked(X, y, weight, reset=True)
        outputs = values.shape[1] if values.ndim == 2 else 1
        self._train_new(rows, values, weights, outputs, epochs, target="regression")
        self._shape: tuple[int, ...] = values.shape[1:]

    def _targets(self, y: Any) -> np.ndarray:
        return np.asarray(y, dtype=np.float64)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
