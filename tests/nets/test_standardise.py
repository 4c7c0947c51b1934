"""The layer that brings features of any scale to one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from recollect import MLP, DERpp
from recollect.learner import Learner
from recollect.nets import Standardise


@pytest.fixture
def table() -> Tensor:
    """A thousand rows with columns of very different scales, one of them constant."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(1000, 4, generator=generator)
    scale = torch.tensor([1e-6, 1.0, 1e7, 0.0])
    return noise * scale + torch.tensor([0.0, 5.0, -1e8, 0.1])


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_statistics_are_those_of_all_rows(table: Tensor, size: int) -> None:
    layer = Standardise(4)
    for batch in torch.split(table, size):
        layer(batch)
    assert int(layer.seen) == 1000
    torch.testing.assert_close(layer.mean, table.mean(0), rtol=1e-4, atol=1e-8)
    deviation = table.double().std(0, correction=0).float()
    torch.testing.assert_close(layer.deviation[:3], deviation[:3], rtol=1e-4, atol=0)
    shown = layer.eval()(table)
    assert shown[:, :3].mean(0).abs().max() < 0.01
    assert (shown[:, :3].std(0) - 1).abs().max() < 0.01
    assert shown[:, 3].abs().max() <= 1, "a constant stays near zero"


def test_a_test_changes_nothing(table: Tensor) -> None:
    layer = Standardise(4)
    layer(table)
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    layer.eval()(table * 3)
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())


def test_a_pass_without_gradients_changes_nothing(table: Tensor) -> None:
    layer = Standardise(4)
    with torch.no_grad():
        layer(table)
    assert int(layer.seen) == 0


def test_the_oldest_fade_after_the_horizon() -> None:
    layer = Standardise(1, horizon=100)
    for level in (0.0, 8.0):
        for _ in range(100):
            layer(level + torch.tensor([[-1.0], [1.0]] * 5))
    assert float(layer.mean) == pytest.approx(8, abs=0.01)


def test_extreme_values_stay_finite() -> None:
    layer = Standardise(2)
    for value in (3e38, -3e38, 0.0, 1e-45):
        assert layer(torch.tensor([[value, 1.0]])).isfinite().all()
    assert layer.eval()(torch.tensor([[3e38, 2.0]])).abs().max() <= layer.limit
    assert torch.stack([layer.mean, layer.deviation]).isfinite().all()


def test_a_run_axis_gives_each_run_its_own(table: Tensor) -> None:
    both = torch.stack([table, 2 * table + 1])
    fleet = Standardise(4)
    for name, part in list(fleet.named_parameters()):
        setattr(fleet, name, nn.Parameter(torch.stack([part, part]), requires_grad=False))
    shown = fleet(both)
    for run in range(2):
        alone = Standardise(4)
        torch.testing.assert_close(shown[run], alone(both[run]))
        torch.testing.assert_close(fleet.mean[run], alone.mean)


@pytest.mark.parametrize("broadcasts", [True, False])
def test_in_a_learner_any_scale_is_learned_and_comes_back_from_a_file(
    broadcasts: bool, tmp_path: Path
) -> None:
    def network() -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            both = nn.Sequential(Standardise(2), MLP(2, 1, hidden=[16]))
        both.broadcasts_runs = broadcasts  # type: ignore[assignment]
        return both

    rng = np.random.default_rng(0)
    learner = Learner(network(), DERpp(), memory=50, lr=0.1)
    for _ in range(100):
        signs = rng.integers(0, 2, 10)
        x = np.stack([1e6 + 50 * (2 * signs - 1), 1e-3 * rng.normal(size=10)], 1)
        learner.observe(x.astype(np.float32), ["low" if sign == 0 else "high" for sign in signs])
    assert (learner.metrics().recent or 0) > 0.9
    learner.save(tmp_path / "model")
    again = Learner.load(tmp_path / "model", network())
    x = np.array([[1e6 + 50, 0], [1e6 - 50, 0]], dtype=np.float32)
    assert again.predict(x) == learner.predict(x) == ["high", "low"]
    assert np.array_equal(again.predict_proba(x), learner.predict_proba(x))
