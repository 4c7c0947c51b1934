"""The regressor in scikit-learn's shape, several labels, and weights of samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from recollect import InputError
from recollect.adapters import SklearnClassifier, SklearnRegressor

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3))
Y = 1000 + 50 * np.stack([X.sum(1), X[:, 0]], 1)
PLAIN = {"hidden": (16,), "memory": 60, "replay": 10, "epochs": 3, "random_state": 0}
# As of scikit-learn's own SGD: a row twice is two steps, and a weight of 2 a step twice as long.
NOT_EQUAL = {
    "check_sample_weight_equivalence_on_dense_data": "steps of gradient descent are not the same"
}


def small(**told: Any) -> SklearnRegressor:
    return SklearnRegressor(**{**PLAIN, **told})


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [small(batch=20, epochs=15)], expected_failed_checks=lambda estimator: NOT_EQUAL
)
def test_scikit_learns_own_checks(estimator: SklearnRegressor, check: Any) -> None:
    check(estimator)


def test_values_are_estimated_in_their_units() -> None:
    one, both = small(epochs=10).fit(X, Y[:, 0]), small(epochs=10).fit(X, Y)
    assert one.score(X, Y[:, 0]) > 0.8
    assert both.score(X, Y) > 0.8
    assert one.predict(X).shape == (200,)
    assert both.predict(X).shape == (200, 2)


def test_partial_fit_goes_on_and_what_fails_changes_nothing() -> None:
    model = small().partial_fit(X[:100], Y[:100, 0])
    before = model.predict(X)
    with pytest.raises(InputError, match="shape"):
        model.partial_fit(X[100:], Y[100:])
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(X[100:], np.full(100, np.nan))
    assert np.array_equal(before, model.predict(X))
    model.partial_fit(X[100:], Y[100:, 0])
    assert model.learner_.seen == 200


def test_weights_decide_which_rows_are_learned() -> None:
    twice, values = np.concatenate([X, X]), np.concatenate([Y[:, 0], -Y[:, 0]])
    for weights, sign in (([1.0, 0.0], 1), ([0.0, 1.0], -1), ([1.0, 0.05], 1)):
        given = np.repeat(weights, 200)
        model = small().fit(twice, values, sample_weight=given)
        assert sign * model.predict(X).mean() > 500
    plain, ones = small().fit(X, Y[:, 0]), small().fit(X, Y[:, 0], sample_weight=np.ones(200))
    assert np.array_equal(plain.predict(X), ones.predict(X))


def test_a_classifier_has_weights_and_several_labels() -> None:
    labels = (X > 0).astype(int)
    model = SklearnClassifier(**{**PLAIN, "epochs": 10}).fit(X, labels)  # type: ignore[arg-type]
    assert (model.predict(X) == labels).mean() > 0.9
    assert model.predict_proba(X).shape == (200, 3)
    model.partial_fit(X[:50], labels[:50])
    with pytest.raises(InputError, match="columns"):
        model.partial_fit(X[:50], labels[:50, :2])
    both, y = np.concatenate([X, X]), np.repeat([0, 1], 200)
    for weights, wanted in (([1.0, 0.01], 0), ([0.01, 1.0], 1)):
        model = SklearnClassifier(**PLAIN).fit(both, y, np.repeat(weights, 200))  # type: ignore[arg-type]
        assert (model.predict(X) == wanted).mean() > 0.9
