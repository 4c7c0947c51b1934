"""The learner on a GPU: it learns, grows, saves and continues as on a CPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from recollect import MLP, DERpp, InputError, Learner
from recollect.methods import METHODS

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 1)
    )


def batch(step: int) -> tuple[np.ndarray, list[str]]:
    rng = np.random.default_rng(step)
    labels = rng.integers(0, 3 + step // 20, size=10)
    x = rng.normal(size=(10, 1, 8, 8)).astype(np.float32) + labels[:, None, None, None]
    return x, [f"class {label}" for label in labels]


@pytest.mark.parametrize("optimiser", ["SGD", "AdamW"])
@pytest.mark.parametrize("precision", ["auto", "float32"])
def test_it_learns_grows_and_continues(optimiser: str, precision: str, tmp_path: Path) -> None:
    learner = Learner(
        network(), DERpp(), memory=50, lr=0.01, optimiser=optimiser, spare=0, device="cuda",
        precision=precision,
    )  # fmt: skip
    for step in range(60):
        learner.observe(*batch(step))
    assert len(learner.classes) == 5
    found = learner.metrics().recent
    assert found is not None
    assert found > 0.4
    learner.save(tmp_path / "learner")
    again = Learner.load(tmp_path / "learner", network(), device="cuda", precision=precision)
    here = Learner.load(tmp_path / "learner", network())
    x, _ = batch(99)
    shares = learner.predict_proba(x)
    np.testing.assert_array_equal(again.predict_proba(x), shares)
    near = 0.02 if precision == "float32" else 0.1
    np.testing.assert_allclose(here.predict_proba(x), shares, atol=near)
    for other in (learner, again):
        other.observe(*batch(60))
    np.testing.assert_allclose(again.predict_proba(x), learner.predict_proba(x), atol=1e-4)


@pytest.mark.parametrize("name", ["sgd", "er", "mer", "agem-r", "gss", "der", "derpp"])
def test_every_method_for_streams_learns_there(name: str) -> None:
    learner = Learner(MLP(64, 1), METHODS[name](), memory=50, lr=0.03, device="cuda")
    for step in range(30):
        x, y = batch(step)
        learner.observe(torch.from_numpy(x).cuda().flatten(1), y)
    assert learner.predict(torch.from_numpy(batch(99)[0]).flatten(1))
    before = learner._packed()
    with pytest.raises(InputError):
        learner.observe(np.full((10, 64), np.nan, dtype=np.float32), y, on_outlier="raise")
    assert learner._packed() == before
