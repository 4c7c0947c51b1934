"""A learner and examples that cannot be trusted: left out, counted, named, or refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.learner.some_stream import engine_of
from torch import nn

from recollect import ER, MLP, SGD, DERpp, DivergedError, InputError, Learner
from recollect.learner.inputs.outliers import Watch
from recollect.nets import Standardise


def learner_of(**arguments: Any) -> Learner:
    torch.manual_seed(0)
    return Learner(MLP(4, 1, hidden=(8,)), DERpp(), **{"memory": 30, "lr": 0.1, **arguments})


def batch(step: int, size: int = 10) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(step)
    x = rng.normal(size=(size, 4)).astype(np.float32)
    return x, (x.sum(1) > 0).astype(int)


def used(learner: Learner, steps: int = 40) -> Learner:
    for step in range(steps):
        learner.observe(*batch(step))
    return learner


def learned(learner: Learner) -> dict[str, np.ndarray]:
    """Weights, memory and averages, without what is noted of outliers."""
    return {name: t.numpy().copy() for name, t in engine_of(learner).fleet.tensors().items()}


def same(one: Learner, other: Learner) -> bool:
    mine, others = learned(one), learned(other)
    return one.seen == other.seen and all(np.array_equal(mine[n], others[n]) for n in mine)


@pytest.mark.parametrize("value", [1e9, -1e9, 1e30])
@pytest.mark.parametrize("seed", range(3))
def test_one_glitch_does_not_ruin_it(value: float, seed: int) -> None:
    """60 good batches, one cell of this size, and 100 good batches, each of which is learned."""
    learner = learner_of(memory=200)
    for step in range(60):
        learner.observe(*batch(1000 * seed + step))
    x, y = batch(1000 * seed + 60)
    x[3, 1] = value
    learner.observe(x, y)
    for step in range(61, 161):
        assert math.isfinite(learner.observe(*batch(1000 * seed + step)))
    x, y = batch(1000 * seed + 999, 500)
    assert float(np.mean(np.array(learner.predict(x)) == y)) > 0.9


@pytest.mark.parametrize("value", [1e4, -1e12, 3e38, np.nan, np.inf, -np.inf])
def test_the_rest_of_the_batch_is_learned_as_if_it_had_come_alone(value: float) -> None:
    one, other = used(learner_of()), used(learner_of())
    x, y = batch(40)
    bad = x.copy()
    bad[[2, 7], [0, 3]] = value
    kept = [row for row in range(10) if row not in (2, 7)]
    assert one.observe(bad, y) == other.observe(x[kept], y[kept])
    assert same(one, other)
    assert one.metrics().left_out == 2
    assert (one.seen, one.arrived) == (408, 410)
    assert [outlier.number for outlier in one.outliers] == [402, 407]
    assert "2 left out" in str(one.metrics())


def test_what_is_left_out_is_never_stored() -> None:
    learner = learner_of(memory=1000)
    for step in range(60):
        x, y = batch(step)
        if step > 20:
            x[step % 10, step % 4] = 10.0 ** min(step - 17, 38)
        learner.observe(x, y)
    stored = engine_of(learner).fleet.memory.fields().x[0]
    assert float(stored.abs().max()) < 10
    assert learner.metrics().left_out == 39


def test_a_batch_of_which_nothing_is_left_is_no_step() -> None:
    one, other = used(learner_of()), used(learner_of())
    for x, y in ((np.full((2, 4), np.nan), ["new", 0]), (np.full(4, 1e20), 1)):
        assert math.isnan(one.observe(x, y))
    assert same(one, other)
    assert (one.steps, {*one.classes}, one.arrived) == (40, {0, 1}, 403)
    assert one.metrics().left_out == 3


def test_the_first_batch_may_have_one_too() -> None:
    x, y = batch(0)
    x[4] = 1e12
    learner = learner_of()
    learner.observe(x, y)
    assert (learner.seen, learner.metrics().left_out) == (9, 1)
    nothing = learner_of()
    assert math.isnan(nothing.observe(np.full((3, 4), np.nan), [0, 1, 2]))
    assert (nothing.seen, nothing.classes, nothing.arrived) == (0, [], 3)
    with pytest.raises(InputError, match="nothing has been learned yet"):
        nothing.predict(x)


def test_predictions_given_with_a_batch_belong_to_their_rows() -> None:
    x, y = batch(40)
    x[0] = np.nan
    one, other = used(learner_of()), used(learner_of())
    one.observe(x, y, predicted=[1 - y[0], *y[1:].tolist()])
    other.observe(x[1:], y[1:], predicted=y[1:].tolist())
    assert one.metrics().accuracy == other.metrics().accuracy
    with pytest.raises(InputError, match="predicted must be"):
        one.observe(x, y, predicted=y[1:].tolist())


@pytest.mark.parametrize(
    "row", [[1.0, 2.0], "text", None, [None, 1.0, 2.0, 3.0], ["a", 1, 2, 3], [[1.0] * 4], 5.0, {}],
    ids=repr,
)  # fmt: skip
def test_a_row_of_a_list_that_cannot_be_read_is_left_out(row: Any) -> None:
    one, other = used(learner_of()), used(learner_of())
    x, y = batch(40)
    rows: list[Any] = x.tolist()
    rows[3] = row
    one.observe(rows, y)
    other.observe(np.delete(x, 3, 0), np.delete(y, 3))
    assert same(one, other)
    assert one.metrics().left_out == 1
    assert "cannot be converted" in one.outliers[-1].reason
    with pytest.raises(InputError):
        one.observe(rows, y[:5])
    with pytest.raises(InputError, match="lists of numbers"):
        one.observe([row, "text"], [0, 1])


@pytest.mark.parametrize(("value", "said"), [(1e9, "far outside"), (np.nan, "not finite")])
def test_they_raise_an_error_if_that_is_asked_for(value: float, said: str) -> None:
    learner = used(learner_of(on_outlier="raise"))
    before = learner._packed()
    x, y = batch(40)
    x[3, 1] = value
    with pytest.raises(InputError, match=said):
        learner.observe(x, y)
    assert learner._packed() == before
    learner.observe(np.delete(x, 3, 0), np.delete(y, 3))


def test_one_call_may_say_otherwise() -> None:
    learner = used(learner_of(on_outlier="raise"))
    x, y = batch(40)
    x[3, 1] = 1e4
    learner.observe(x, y, on_outlier="skip")
    assert learner.seen == 409
    learner.observe(x / 10, y, on_outlier="learn")
    assert learner.seen == 419
    for on_outlier in ("skip", "learn"):
        x[3, 1] = np.nan
        if on_outlier == "learn":
            with pytest.raises(InputError, match="not finite"):
                learner.observe(x, y, on_outlier="learn")
        else:
            learner.observe(x, y, on_outlier="skip")
    for wrong in ("drop", None):
        with pytest.raises(InputError, match="on_outlier must be one of"):
            learner_of(on_outlier=wrong)
    with pytest.raises(InputError, match="on_outlier must be one of"):
        learner.observe(x, y, on_outlier="drop")


def test_what_is_accepted_on_demand_can_still_be_too_much() -> None:
    learner = used(learner_of())
    before = learner._packed()
    with pytest.raises(DivergedError):
        learner.observe(np.full((2, 4), 3e38, np.float32), [0, 1], on_outlier="learn")
    assert learner._packed() == before


def test_it_is_resumed_exactly(tmp_path: Path) -> None:
    """Bounds, counts and reasons too: what is left out after a restart is the same."""

    def stream(step: int) -> tuple[np.ndarray, np.ndarray]:
        x, y = batch(step)
        x *= (1e-3, 1, 1, 1e5)
        if step % 7 == 3:
            x[step % 10, step % 4] *= 10.0 ** (step % 11)
        return x * (1000 if 60 < step < 80 else 1), y

    network = nn.Sequential(Standardise(4), MLP(4, 1, hidden=(8,)))
    whole, parts = (Learner(network, DERpp(), memory=30, lr=0.1) for _ in range(2))
    for step in range(120):
        whole.observe(*stream(step))
        parts.observe(*stream(step))
        if step % 9 == 0:
            parts.save(tmp_path / "learner")
            parts = Learner.load(tmp_path / "learner", network)
    assert whole._packed() == parts._packed()
    assert whole.metrics() == parts.metrics()
    assert whole.outliers == parts.outliers
    assert whole.metrics().left_out > 10
    assert len(whole.outliers) == 10


def test_a_row_that_is_not_finite_is_not_predicted() -> None:
    learner = used(learner_of())
    x, _ = batch(40)
    x[0, 0] = np.nan
    with pytest.raises(InputError, match="not finite"):
        learner.predict(x)


def test_images_as_numbers_are_compared_as_wholes() -> None:
    learner = Learner(nn.Sequential(nn.Flatten(), MLP(12, 1)), ER(), memory=20)
    rng = np.random.default_rng(0)
    for _ in range(30):
        learner.observe(rng.random((10, 3, 2, 2), dtype=np.float32), rng.integers(0, 2, 10))
    x = rng.random((2, 3, 2, 2), dtype=np.float32)
    x[1, 0, 0, 0] = 1e6
    learner.observe(x, [0, 1])
    assert (learner.seen, learner.metrics().left_out) == (301, 1)


def test_a_scaling_layer_survives_glitches_that_are_learned() -> None:
    layer = Standardise(4)
    learner = Learner(nn.Sequential(layer, MLP(4, 1)), SGD(), lr=0.1, on_outlier="learn")
    used(learner, 100)
    x, y = batch(100)
    x[3, 1] = 1e8
    learner.observe(x, y)
    after = learner.trained_module()[0]  # type: ignore[index]
    assert float(after.deviation.max()) < 3
    used(learner, 40)
    x, y = batch(999, 500)
    assert float(np.mean(np.array(learner.predict(x)) == y)) > 0.9


def test_magnitudes_may_alternate_between_extremes() -> None:
    watch = Watch.empty()
    for step in range(30):
        x, y = batch(step)
        scaled = torch.from_numpy(x * np.float32(1e-20 if step % 2 else 1e20))
        watch, _ = watch.judge(scaled, y.tolist(), lambda label: 0)
    assert 0 < watch.magnitudes.bound < math.inf


@pytest.mark.parametrize("value", [1e9, np.nan])
def test_an_example_that_is_refused_is_named_by_its_index(value: float) -> None:
    learner = Learner(MLP(2, 1), ER(), on_outlier="raise")
    rng = np.random.default_rng(0)
    for _ in range(30):
        learner.observe(rng.normal(size=(10, 2)), ["a", "b"] * 5)
    x = rng.normal(size=(5, 2))
    x[3, 1] = value
    with pytest.raises(InputError, match=r"^example 3 of this batch (is far outside|has values)"):
        learner.observe(x, ["a"] * 5)
    with pytest.raises(InputError, match=r"^the example (is far outside|has values)"):
        learner.observe(x[3], "a")
