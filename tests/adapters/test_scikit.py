"""The classifier in scikit-learn's shape: scikit-learn's own suite, and what that leaves out."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from recollect import ER, DERpp, InputError, Learner, adapters
from recollect.adapters import SklearnClassifier
from recollect.adapters.build import network_for
from recollect.methods.usual import USUAL


def small(**told: Any) -> SklearnClassifier:
    plain = {"hidden": (16,), "memory": 60, "replay": 10, "epochs": 3, "random_state": 0}
    return SklearnClassifier(**{**plain, **told})


def blobs(n: int, classes: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of four numbers around a centre for each class, of very different scales."""
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    centres = 4 * np.eye(max(classes, 4), 4)
    scales = np.array([1e-3, 1.0, 1e3, 1e5])
    return (centres[y] + rng.normal(size=(n, 4))) * scales + 5 * scales, y


# As of scikit-learn's own SGD: a row twice is two steps, and a weight of 2 a step twice as long.
NOT_EQUAL = {
    "check_sample_weight_equivalence_on_dense_data": "steps of gradient descent are not the same"
}


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [small(batch=20)], expected_failed_checks=lambda estimator: NOT_EQUAL
)
def test_scikit_learns_own_checks(estimator: SklearnClassifier, check: Any) -> None:
    check(estimator)


def test_fit_learns_features_of_any_scale_and_scores_far_above_the_majority() -> None:
    x, y = blobs(300)
    test_x, test_y = blobs(300, seed=1)
    model = small().fit(x, y)
    assert model.score(test_x, test_y) > 0.9
    assert np.bincount(test_y).max() / len(test_y) < 0.45
    raw = small(standardise=False, lr=1e-9).fit(x, y)
    assert raw.score(test_x, test_y) < 0.6, "the scales matter, so the first layer does"


def test_fit_starts_afresh_and_a_seed_decides_everything() -> None:
    x, y = blobs(120)
    model = small().fit(x[:60], (y[:60] + 1) * 10).fit(x, y)
    again = small().fit(x, y)
    assert model.classes_.tolist() == [0, 1, 2]
    assert np.array_equal(model.predict_proba(x), again.predict_proba(x))
    other = small(random_state=1).fit(x, y)
    assert not np.array_equal(model.predict_proba(x), other.predict_proba(x))


def test_nothing_random_is_left_in_torch() -> None:
    x, y = blobs(40)
    torch.manual_seed(7)
    before = torch.get_rng_state()
    small().fit(x, y)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("method", [None, "derpp", "er", DERpp(alpha=0.2, beta=1.0)])
def test_partial_fit_is_observe_with_the_same_batches_bit_for_bit(
    method: Any, tmp_path: Path
) -> None:
    x, y = blobs(95)
    model = small(batch=10, method=method)
    for start in range(0, 95, 25):  # the last step of every call has five rows
        model.partial_fit(x[start : start + 25], y[start : start + 25])

    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    first = len(np.unique(y[:25]))
    by_hand = {None: USUAL, "derpp": DERpp(), "er": ER()}.get(method, method)
    learner = Learner(
        network_for(model, 4, first, seed), by_hand, memory=60, lr=0.1, seed=seed, replay=10,
        on_outlier="learn",
    )  # fmt: skip
    for start in range(0, 95, 25):
        stop = min(start + 25, 95)
        for step in range(start, stop, 10):
            end = min(step + 10, stop)
            learner.observe(x[step:end].astype(np.float32), y[step:end])

    learner.save(tmp_path / "by-hand")
    model.learner_.save(tmp_path / "adapter")
    assert (tmp_path / "by-hand").read_bytes() == (tmp_path / "adapter").read_bytes()
    order = [learner.classes.index(label) for label in model.classes_.tolist()]
    assert np.array_equal(model.predict_proba(x), learner.predict_proba(x)[:, order])


def test_the_documentation_names_the_method_where_none_is_chosen() -> None:
    said = f"If None, DER++ with alpha = {USUAL.alpha:g} and beta = {USUAL.beta:g}."
    for kind, other in (
        ("Classifier", said),
        ("Regressor", "arguments are those of `{}Classifier`"),
    ):
        for library in ("Sklearn", "River"):
            text = getattr(adapters, f"{library}{kind}").__doc__ or ""
            assert other.format(library) in " ".join(text.split())


@pytest.mark.parametrize(("method", "layers"), [(None, 3), ("er", 3), ("slda", 1), ("ncm", 1)])
def test_hidden_layers_are_there_only_if_something_trains_them(method: Any, layers: int) -> None:
    for hidden, count in ((None, layers), ((8,), 2)):
        model = SklearnClassifier(method=method, hidden=hidden)
        weights = network_for(model, 4, 3, 0).parameters()
        assert sum(each.dim() == 2 for each in weights) == count


def test_optimisers_and_schedules_have_the_learners_names() -> None:
    x, y = blobs(60)
    how: dict[str, Any] = {"momentum": np.float64(0.9), "nesterov": True, "clip": 1.0, "warmup": 3,
                           "schedule": "step", "decay_every": 5}  # fmt: skip
    model = small(batch=10, **how).partial_fit(x, y)
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    learner = Learner(network_for(model, 4, 3, seed), USUAL, memory=60, lr=0.1, seed=seed,
                      replay=10, on_outlier="learn", **how)  # fmt: skip
    for start in range(0, 60, 10):
        learner.observe(x[start : start + 10].astype(np.float32), y[start : start + 10])
    assert model.learner_._packed() == learner._packed()
    assert clone(model).get_params()["momentum"] == 0.9
    with pytest.raises(InputError, match=r"schedule_steps=\.\.\."):
        small(schedule="cosine").fit(x, y)


def test_classes_that_arrive_late_and_out_of_order_are_learned_and_the_early_ones_kept() -> None:
    x, y = blobs(600, classes=4)
    names = np.array(["delta", "alpha", "charlie", "bravo"])[y]
    model = small(memory=200, method="derpp")
    for label in ("delta", "alpha", "charlie", "bravo"):
        chosen = names == label
        model.partial_fit(x[chosen], names[chosen])
        assert label in model.classes_
        assert model.classes_.tolist() == sorted(model.classes_)
    assert model.classes_.tolist() == ["alpha", "bravo", "charlie", "delta"]
    assert model.score(x, names) > 0.85


def test_a_drifting_stream_is_followed_better_than_by_the_majority() -> None:
    """The boundary between two classes turns by a right angle; rows are predicted, then learned."""
    rng = np.random.default_rng(0)
    model, right, majority = small(memory=40, batch=10), [], []
    for step in range(60):
        angle = np.pi / 2 * step / 60
        x = rng.normal(size=(20, 2))
        y = (x @ [np.cos(angle), np.sin(angle)] > 0).astype(int)
        if step >= 5:
            right.append(model.score(x, y))
            majority.append(max(y.mean(), 1 - y.mean()))
        model.partial_fit(x, y)
    assert np.mean(right) > 0.8
    assert np.mean(right) > np.mean(majority) + 0.15
    assert model.learner_.metrics().seen == 1200


def test_classes_that_are_listed_have_columns_at_once_and_others_are_refused() -> None:
    x, y = blobs(60)
    model = small().partial_fit(x[y < 2], y[y < 2], classes=[2, 1, 0])
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.predict_proba(x).shape == (60, 3)
    before = pickle.dumps(model)
    with pytest.raises(InputError, match="not one of the classes given"):
        model.partial_fit(x, y + 1)
    with pytest.raises(InputError, match="cannot change after the first call"):
        model.partial_fit(x, y, classes=[0, 1])
    assert pickle.dumps(model) == before
    model.partial_fit(x, y, classes=[0, 1, 2])


def test_partial_fit_goes_on_from_fit_and_may_bring_a_class() -> None:
    x, y = blobs(200)
    model = small().fit(x[y < 2], y[y < 2])
    assert model.predict_proba(x).shape == (200, 2)
    model.partial_fit(x, y)
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.score(x, y) > 0.8


def test_a_copy_of_a_fitted_model_goes_on_alike_and_a_clone_starts_anew() -> None:
    x, y = blobs(120)
    model = small(method=ER()).fit(x[:60], y[:60])
    copied = pickle.loads(pickle.dumps(model))
    assert np.array_equal(model.predict_proba(x), copied.predict_proba(x))
    for each in (model, copied):
        each.partial_fit(x[60:], y[60:])
    assert np.array_equal(model.predict_proba(x), copied.predict_proba(x))

    fresh = clone(model)
    assert fresh.get_params()["method"] == ER()
    assert fresh.get_params().keys() == model.get_params().keys()
    with pytest.raises(NotFittedError):
        fresh.predict(x)


def test_the_names_of_features_are_kept_and_checked() -> None:
    x, y = blobs(40)
    frame = pd.DataFrame(x, columns=["a", "b", "c", "d"])
    model = small().fit(frame, y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    assert model.n_features_in_ == 4
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["b", "a", "c", "d"]])
    with pytest.raises(ValueError, match="3 features"):
        small().fit(x, y).partial_fit(x[:, :3], y)


def test_a_pipeline_and_a_search_over_parameters() -> None:
    x, y = blobs(90)
    pipeline = make_pipeline(StandardScaler(), small(standardise=False))
    grid = {"sklearnclassifier__memory": np.array([20, 40]), "sklearnclassifier__epochs": [2]}
    found = GridSearchCV(pipeline, grid, cv=2).fit(x, y)
    assert found.best_params_["sklearnclassifier__memory"] in (20, 40)
    assert found.score(x, y) > 0.8


def test_a_network_of_ones_own() -> None:
    made = []

    def network(inputs: int, outputs: int) -> nn.Module:
        made.append((inputs, outputs))
        return nn.Sequential(nn.Linear(inputs, 12), nn.Tanh(), nn.Linear(12, outputs))

    x, y = blobs(150)
    model = small(module=network, lr=0.05).fit(x, y)
    assert made == [(4, 3)]
    assert model.score(x, y) > 0.9
    assert any(isinstance(part, nn.Tanh) for part in model.learner_.trained_module().modules())


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"batch": 0}, "batch must be a whole number of at least 1"),
        ({"epochs": 1.5}, "epochs must be a whole number"),
        ({"hidden": (0,)}, "a size in hidden"),
        ({"hidden": 100}, "hidden must be a list of layer sizes, not 100"),
        ({"module": nn.Linear(4, 3)}, "module must be a function"),
        ({"method": "derp"}, "did you mean"),
        ({"method": "ewc"}, "needs task boundaries, task ids"),
        ({"memory": 0}, "memory must be"),
        ({"lr": -1.0}, "lr must be"),
        ({"module": lambda inputs, outputs: "net"}, "it returned str"),
        ({"module": lambda inputs, outputs: nn.Linear(3, 3)}, "does not accept examples of shape"),
    ],
)
def test_a_parameter_that_makes_no_sense_is_refused_and_said(
    told: dict[str, Any], message: str
) -> None:
    x, y = blobs(30)
    model = small(**told)
    with pytest.raises(InputError, match=message):
        model.fit(x, y)
    assert not hasattr(model, "learner_")


def test_values_too_large_for_32_bits_are_refused() -> None:
    x, y = blobs(30)
    x[3, 2] = 1e300
    with pytest.raises(ValueError, match="too large for float32"):
        small().fit(x, y)


class Fragile(nn.Module):
    """A network that cannot learn from one kind of row."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.head = nn.Linear(inputs, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training and bool((x > 1e6).any()):
            raise ValueError("too much")
        logits: torch.Tensor = self.head(x)
        return logits


@pytest.mark.parametrize("row", [0, 25], ids=["in the first step", "in a later one"])
def test_what_fails_leaves_the_estimator_as_it_was(row: int) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 4)), np.arange(40) % 3
    model = small(module=Fragile, standardise=False).partial_fit(x, y)
    learner = model.learner_
    before, attributes = learner._packed(), {**vars(model)}
    bad = x.copy()
    bad[row] = 1e7
    for learn in (model.partial_fit, model.fit):
        with pytest.raises(InputError, match="too much"):
            learn(bad, np.full(40, 7))
        assert vars(model) == attributes
        assert model.learner_ is learner
        assert learner._packed() == before
    assert model.classes_.tolist() == [0, 1, 2]
    model.partial_fit(x, y + 1)
    assert model.classes_.tolist() == [0, 1, 2, 3]


def test_a_first_call_that_fails_leaves_an_estimator_that_was_never_fitted() -> None:
    model = small(module=Fragile, standardise=False)
    attributes = {**vars(model)}
    for learn in (model.partial_fit, model.fit):
        with pytest.raises(InputError, match="too much"):
            learn(np.full((4, 4), 1e7), [0, 1, 0, 1])
        assert vars(model) == attributes
    model.partial_fit(np.ones((4, 2)), [0, 1, 0, 1])
