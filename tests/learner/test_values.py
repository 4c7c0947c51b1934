"""Learners of values: scale, units, files, outliers, weights."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from recollect import DER, ER, MLP, SGD, DERpp, DivergedError, InputError, Learner, Method
from recollect.learner.targets.values import Values

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3)).astype(np.float32)
Y = 1e4 + 500 * np.stack([X.sum(1), X[:, 0] * X[:, 1]], 1).astype(np.float64)


def network(outputs: int = 1) -> MLP:
    torch.manual_seed(0)
    return MLP(3, outputs, hidden=(16,))


def learner_of(method: Method | None = None, outputs: int = 1, **changes: object) -> Learner:
    usual = {"memory": 50, "lr": 0.05, "target": "regression", "replay": 8, **changes}
    return Learner(network(outputs), method or DERpp(), **usual)  # type: ignore[arg-type]


def learned(learner: Learner, rows: slice = slice(0, 400), values: int = 1) -> Learner:
    for start in range(*rows.indices(400))[::10]:
        some = slice(start, start + 10)
        learner.observe(X[some], Y[some, 0] if values == 1 else Y[some])
    return learner


@pytest.mark.parametrize("values", [1, 2])
def test_values_are_learned_in_the_units_of_the_user(values: int) -> None:
    learner = learned(learner_of(outputs=values), values=values)
    found = learner.metrics()
    assert found.seen == 400
    assert found.rmse is not None
    assert found.rmse < 0.8 * Y[:, :values].std(0).mean(), "better than the mean would be"
    assert found.r2 is not None
    assert found.r2 > 0.3
    single, several = learner.predict(X[0]), learner.predict(X[:5])
    assert several.shape == ((5,) if values == 1 else (5, 2))
    assert np.allclose(single, several[0])
    exported = learner.trained_module()(torch.from_numpy(X[:5])).detach().numpy()
    assert np.allclose(exported.reshape(several.shape), several, rtol=1e-4)
    with pytest.raises(InputError, match="predict_proba is not available with"):
        learner.predict_proba(X[0])
    assert learner.classes == []


def test_a_change_of_scale_changes_no_prediction_and_no_stored_value() -> None:
    """Twice the number of examples is when the scale is estimated anew."""
    learner = learner_of(DER())
    for row in range(255):
        learner.observe(X[row], Y[row, 0])
    before, engine = learner._now.labels, learner._now.engine
    assert isinstance(before, Values) and engine is not None  # noqa: PT018
    after = before.with_new([(Y[255, 0],)])
    change = before.change_to(after)
    assert change is not None
    from recollect.learner.engine.adapting import _rescaled

    other = _rescaled(engine, *change, examples=torch.from_numpy(X[:1]))
    was, now = (e.logits(torch.from_numpy(X)) for e in (engine, other))
    assert np.allclose(before.decode(was), after.decode(now), rtol=1e-5)
    stored, moved = (e.fleet.memory.tensors["logits"][:-1] for e in (engine, other))
    assert not torch.equal(stored, moved)
    assert np.allclose(before.decode(stored), after.decode(moved), rtol=1e-5)


@pytest.mark.parametrize("kind", [SGD, ER, DER, DERpp])
@pytest.mark.parametrize("at", [70, 130])
def test_a_saved_learner_continues_bit_for_bit(kind: type[Method], at: int, tmp_path: Path) -> None:
    whole = learned(learner_of(kind()), slice(0, 400))
    half = learned(learner_of(kind()), slice(0, at // 10 * 10))
    half.save(tmp_path / "half")
    again = Learner.load(tmp_path / "half", network())
    again = pickle.loads(pickle.dumps(again))
    learned(again, slice(at // 10 * 10, 400))
    assert np.array_equal(whole.predict(X), again.predict(X))
    assert whole.metrics() == again.metrics()
    with pytest.raises(InputError, match="target"):
        Learner(network(), kind(), memory=50, lr=0.05, replay=8,
                checkpoints=tmp_path / "folder").resumed(_folder(again, tmp_path))  # fmt: skip


def _folder(learner: Learner, tmp_path: Path) -> Path:
    learner.checkpoint(tmp_path / "there")
    learner.close()
    return tmp_path / "there"


def test_weights_are_stored_replayed_and_saved(tmp_path: Path) -> None:
    plain, ones = (learned(learner_of(ER()), slice(0, 200)) for _ in range(2))
    plain.observe(X[:10], Y[:10, 0])
    ones.observe(X[:10], Y[:10, 0], weight=np.ones(10))
    assert np.array_equal(plain.predict(X), ones.predict(X)), "a weight of 1 is none"
    ones.observe(X[:4], Y[:4, 0], weight=[1, 2, 0, 0.5])
    assert ones.seen == 213
    assert ones.outliers[-1].reason == "its weight is 0"
    engine = ones._now.engine
    assert engine is not None
    assert set(engine.fleet.memory.tensors["y"][:-1, 0].tolist()) <= {1.0, 2.0, 0.5}
    ones.save(tmp_path / "file")
    again = Learner.load(tmp_path / "file", network())
    for each in (ones, again):
        each.observe(X[10:20], Y[10:20, 0])
    assert np.array_equal(again.predict(X), ones.predict(X))
    for weight in (-1, float("nan"), [1.0], "a"):
        with pytest.raises(InputError, match="weight"):
            ones.observe(X[:4], Y[:4, 0], weight=weight)


@pytest.mark.parametrize(
    ("weight", "said"),
    [
        (-1, "from 0 to 1e.06, not -1$"), ([1, 1, np.nan], "not nan$"), (1e7, "not 1e.07: divide"),
        ([1, 1], "2 weights, but 3 examples"), ("2", "be a number"), (np.ones((3, 1)), "shape"),
    ],
)  # fmt: skip
def test_what_is_not_a_weight_is_refused(weight: object, said: str) -> None:
    learner = learned(learner_of(), slice(0, 20))
    with pytest.raises(InputError, match=said):
        learner.observe(X[:3], Y[:3, 0], weight=weight)
    assert learner.seen == 20
    assert np.isnan(learner.observe(X[:3], Y[:3, 0], weight=0))
    assert learner.seen == 20


def test_a_weight_of_two_is_two_steps_to_first_order() -> None:
    found = []
    for weights in ((2.0,), (1.0, 1.0)):
        learner = learner_of(SGD(), lr=1e-4)
        learner.observe(X[:50], Y[:50, 0])
        before = learner.predict(X)
        for weight in weights:
            learner.observe(X[60], Y[60, 0], weight=weight)
        found.append(learner.predict(X) - before)
    assert np.allclose(found[0], found[1], rtol=0.01, atol=1e-3)


def test_outliers_are_left_out_and_another_unit_is_accepted() -> None:
    learner = learned(learner_of(lr=0.02), slice(0, 300))
    before = learner.predict(X)
    assert np.isnan(learner.observe(X[0], 1e12))
    assert "deviations away" in learner.outliers[-1].reason
    assert np.array_equal(before, learner.predict(X))
    with pytest.raises(InputError, match="far outside"):
        learner.observe(X[0], 1e12, on_outlier="raise")
    for start in range(0, 400, 10):
        learner.observe(X[start : start + 10], 1e9 * X[start : start + 10].sum(1))
    found = learner.metrics()
    assert found.left_out < 20
    assert np.abs(learner.predict(X) - 1e9 * X.sum(1)).mean() < 1e9


def test_an_outlier_among_the_first_ruins_nothing() -> None:
    learner = learner_of(ER(), memory=400)
    for start in range(0, 400, 4):
        y = Y[start : start + 4, 0].copy()
        if start == 16:
            y[0] = 1e12
        learner.observe(X[start : start + 4], y)
    assert np.abs(learner.predict(X) - Y[:, 0]).mean() < 600
    stored = np.array([each.label for each in learner.remembered()])
    assert len(stored) == 400
    assert np.abs(stored - Y[:, 0].mean()).max() < 12 * Y[:, 0].std(), "it was moved"


def test_predictions_of_before_are_counted() -> None:
    one, other = (learned(learner_of(), slice(0, 100)) for _ in range(2))
    one.observe(X[:10], Y[:10, 0])
    other.observe(X[:10], Y[:10, 0], predicted=other.predict(X[:10]))
    assert one.metrics() == other.metrics()


@pytest.mark.parametrize("values", [1, 2])
def test_an_example_without_a_prediction_is_in_no_metric(values: int) -> None:
    learner = learned(learner_of(outputs=values), slice(0, 100), values=values)
    y = Y[:3, 0] if values == 1 else Y[:3]
    before = learner.metrics()
    learner.observe(X[:3], y, predicted=[None, None, None])
    found = learner.metrics()
    assert (found.seen, found.mae, found.rmse) == (103, before.mae, before.rmse)
    learner.observe(X[:3], y, predicted=[None, y[1], y[2]])
    assert before.mae is not None
    assert learner.metrics().mae == pytest.approx(before.mae * 90 / 92)
    for wrong in ([None], 3.0, ["a", "b", "c"], [[1.0, 2.0, 3.0]] * 3):
        with pytest.raises(
            InputError, match="predicted must be what predict returned: 3 predictions"
        ):
            learner.observe(X[:3], y, predicted=wrong)


@pytest.mark.parametrize(
    ("x", "y", "said"),
    [
        (X[:10], Y[:9, 0], "for 10 of them, give 10 targets"),
        (X[:10], 3.0, "for 10 of them, give 10 targets"),
        (X[:10], Y[:9], "9 targets, but x has 10 examples"),
        (X[0], Y[:2], "2 targets, but x is one example"),
    ],
)
def test_first_targets_that_do_not_belong_to_the_examples(x: object, y: object, said: str) -> None:
    learner = learner_of()
    with pytest.raises(InputError, match=said):
        learner.observe(x, y)
    assert not learner.steps


@pytest.mark.parametrize("last", [torch.nn.Sigmoid(), torch.nn.ReLU(), torch.nn.Hardtanh(-9, 9)])
def test_a_network_whose_last_layer_does_not_give_its_outputs_is_refused(
    last: torch.nn.Module,
) -> None:
    learner = Learner(torch.nn.Sequential(network(), last), ER(), target="regression")
    with pytest.raises(InputError, match="remove any sigmoid or clamp after it"):
        learner.observe(X[:5], Y[:5, 0])
    same = torch.nn.Sequential(network(), torch.nn.Flatten())
    Learner(same, ER(), target="regression").observe(X[:5], Y[:5, 0])


@pytest.mark.parametrize(
    ("y", "said"),
    [
        (["a"] * 10, "y must be one or several numbers"),
        (np.full(10, np.nan), "not finite"),
        (np.zeros((10, 3)), "an example has 3 target values, and must have 1 as"),
        (np.zeros(4), "4 targets, but x has 10 examples"),
        (None, "y must be one or several numbers|not finite"),
    ],
)
def test_what_is_not_a_value_is_refused_before_anything_changes(y: object, said: str) -> None:
    learner = learned(learner_of(), slice(0, 20))
    before = learner.predict(X)
    with pytest.raises(InputError, match=said):
        learner.observe(X[:10], y)
    assert np.array_equal(before, learner.predict(X))


def test_networks_and_arguments_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="has 3 outputs, but an example has 1 target value"):
        learner_of(outputs=3).observe(X[:5], Y[:5, 0])
    no_bias = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1, bias=False))
    with pytest.raises(InputError, match="a linear layer with a bias"):
        Learner(no_bias, ER(), target="regression").observe(X[:5], Y[:5, 0])
    with pytest.raises(InputError, match="has no classes"):
        learner_of(classes=["a"])
    with pytest.raises(InputError, match="target='regression'"):
        Learner(MLP(3, 1), ER()).observe(X[:5], Y[:5, 0])
    with pytest.raises(InputError, match="did you mean 'regression'"):
        learner_of(target="regresion")
    with pytest.raises(InputError, match="unknown target None"):
        learner_of(target=None)


@settings(max_examples=10, deadline=None)
@given(
    hnp.arrays(np.float64, st.integers(1, 8), elements=st.floats(allow_nan=False, width=64)),
    st.integers(1, 3),
)
def test_any_values_leave_a_learner_that_predicts(y: np.ndarray, times: int) -> None:
    learner = learner_of(ER(), lr=0.01)
    for _ in range(times):
        for values in (y, y[::-1]):
            try:
                learner.observe(X[: len(values)], np.ascontiguousarray(values))
            except (InputError, DivergedError):
                continue
    if learner.seen:
        assert np.isfinite(learner.predict(X)).all()
