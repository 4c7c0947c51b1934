"""The learner as a classifier of scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self, final

import numpy as np

from recollect.adapters.build import Arguments, learner_for, whole
from recollect.adapters.rows import continued, narrow, observe, weighted, whole_or_not
from recollect.errors import InputError
from recollect.extras import needs
from recollect.learner import Learner

with needs("sklearn", extra="sklearn", what="SklearnClassifier"):
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import check_random_state, column_or_1d
    from sklearn.utils.multiclass import check_classification_targets, type_of_target
    from sklearn.utils.validation import check_is_fitted, validate_data

__all__ = ["SklearnClassifier"]


@final
@dataclass(eq=False, repr=False)
class SklearnClassifier(ClassifierMixin, Arguments, BaseEstimator):  # type: ignore[misc]
    """A network that learns rows of numbers, at once or as they arrive, and does not forget.

    `fit` starts afresh and takes `epochs` passes over the data, shuffled. `partial_fit` continues
    with the rows in their order, `batch` of them a step. Classes that are new there are learned as
    they arrive, unless the first call lists all there will be. What either refuses changes nothing.

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
        classes_: The labels, sorted; the columns of `predict_proba` are in this order.
        learner_: The `recollect.Learner`, for its metrics or to save it.
        n_features_in_: How many features a row has.
        feature_names_in_: Their names, if a data frame was learned from.

    >>> from sklearn.datasets import load_iris
    >>> x, y = load_iris(return_X_y=True)
    >>> SklearnClassifier(epochs=5, random_state=0).fit(x, y).score(x, y) > 0.9
    True
    """

    batch: int = field(default=10, kw_only=True)
    epochs: int = field(default=10, kw_only=True)
    random_state: int | np.random.RandomState | None = field(default=None, kw_only=True)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803
        """Forget everything, and learn from rows `[n, features]` with labels `[n]`.

        Where a row has several labels, y is `[n, labels]` of ones and zeros. `sample_weight` `[n]`
        multiplies the losses of rows; those with a weight of 0 are left out.
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
        """Go on with rows `[n, features]` and labels `[n]`, in this order.

        `classes`, in the first call, lists all labels there will be: others are refused later. It
        is not needed.
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
        """Learn with a new learner: shuffled, so many times, or once in the order of the rows."""
        rows, labels, weights = self._checked(X, y, weight, reset=True)
        size = whole(self.batch, "batch")
        if labels.ndim == 2:
            known = np.arange(labels.shape[1])
            classes, target = known, "labels"
        else:
            target = "class"
            known = np.unique(labels if classes is None else np.asarray(classes))
            _refuse_unknown(labels, known)
        listed = None if classes is None else known.tolist()
        random = check_random_state(self.random_state)
        seed = int(random.randint(2**31 - 1))
        learner = learner_for(
            self, rows.shape[1], len(known), seed=seed, classes=listed, target=target
        )
        for _ in range(epochs or 1):
            order = random.permutation(len(rows)) if epochs else np.arange(len(rows))
            observe(learner, rows, self._targets(labels), size, weights, order)
        self.learner_: Learner = learner
        self.classes_: np.ndarray = known
        self._listed = listed is not None

    def _go_on(self, X: Any, y: Any, weight: Any, classes: Any) -> None:  # noqa: N803
        rows, labels, weights = self._checked(X, y, weight, reset=False)
        size = whole(self.batch, "batch")
        if (labels.ndim == 2) != (self.learner_.target == "labels"):
            raise InputError("y has one label for a row and earlier several, or the reverse")
        if labels.ndim == 2 and labels.shape[1] != len(self.classes_):
            raise InputError(f"y has {labels.shape[1]} columns, and earlier {len(self.classes_)}")
        if classes is not None and set(np.asarray(classes).tolist()) != set(self.classes_.tolist()):
            raise InputError(
                f"classes are listed in the first call of partial_fit: they are "
                f"{self.classes_.tolist()}, and not {np.asarray(classes).tolist()}"
            )
        if self._listed and labels.ndim == 1:
            _refuse_unknown(labels, self.classes_)
        continued(self.learner_, rows, self._targets(labels), size, weights)
        if labels.ndim == 1:
            self.classes_ = np.union1d(self.classes_, labels)

    def _targets(self, labels: np.ndarray) -> Any:
        """Labels `[n]`, or the sets of numbers of the columns `[n, labels]` that are not zero."""
        if labels.ndim == 1:
            return labels
        return [set(np.flatnonzero(row).tolist()) for row in labels]

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """The label of every row, `[n]`; ones and zeros `[n, labels]` where rows have several."""
        shares = self.predict_proba(X)
        if self.learner_.target == "labels":
            return (shares > 0.5).astype(np.int64)
        labels: np.ndarray = self.classes_[shares.argmax(1)]
        return labels

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """The probability of every class in `classes_` for every row, `[n, classes]`."""
        check_is_fitted(self)
        rows = narrow(validate_data(self, X, dtype=[np.float64, np.float32], reset=False))
        columns = {label: column for column, label in enumerate(self.classes_.tolist())}
        shares = np.zeros((len(rows), len(columns)))
        shares[:, [columns[label] for label in self.learner_.classes]] = (
            self.learner_.predict_proba(rows)
        )
        return shares

    def _checked(
        self,
        X: Any,  # noqa: N803
        y: Any,
        weight: Any,
        *,
        reset: bool,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        rows, labels = validate_data(
            self, X, y, dtype=[np.float64, np.float32], reset=reset, multi_output=True
        )
        check_classification_targets(labels)
        several = type_of_target(labels) == "multilabel-indicator"
        labels = np.asarray(labels) if several else column_or_1d(labels, warn=True)
        return weighted(narrow(rows), labels, weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


def _refuse_unknown(labels: np.ndarray, known: np.ndarray) -> None:
    new = np.setdiff1d(labels, known)
    if len(new):
        raise InputError(
            f"the label {new[0]!r} is not among the classes that were listed: {known.tolist()}"
        )
