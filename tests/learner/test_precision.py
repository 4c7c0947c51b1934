"""A learner computes convolutions in bfloat16 if asked, and its promises stay the same."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from recollect import MLP, DERpp, DivergedError, InputError, Learner
from recollect.learner.settings import Settings


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 3)
    )


def batch(step: int) -> tuple[np.ndarray, list[int]]:
    rng = np.random.default_rng(step)
    labels = rng.integers(0, 3, size=10)
    x = rng.normal(size=(10, 1, 8, 8)).astype(np.float32) + labels[:, None, None, None]
    return x, labels.tolist()


def learner(**how: str) -> Learner:
    return Learner(network(), DERpp(), memory=50, replay=10, lr=0.01, **how)  # type: ignore[arg-type]


def test_bfloat16_learns_saves_and_undoes(tmp_path: Path) -> None:
    half, full = learner(precision="bf16"), learner()
    for step in range(40):
        losses = [each.observe(*batch(step)) for each in (half, full)]
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], abs=0.2)
    x, y = batch(99)
    assert (np.array(half.predict(x)) == y).mean() > 0.7
    before = half._packed()
    with pytest.raises(DivergedError):
        half.observe(np.full_like(x, 3e38), y, on_outlier="learn")
    assert half._packed() == before
    half.save(tmp_path / "half")
    again = Learner.load(tmp_path / "half", network(), precision="bf16")
    assert again.observe(x, y) == half.observe(x, y)
    assert again._packed() == half._packed()


def test_weights_and_stored_logits_stay_float32() -> None:
    half = learner(precision="bf16")
    half.observe(*batch(0))
    fleet = half._now.ready().fleet
    assert fleet.execution.endswith("bf16")
    assert {tensor.dtype for tensor in fleet.weights} == {torch.float32}
    assert fleet.memory.tensors["logits"].dtype == torch.float32


def test_dense_networks_ignore_the_precision() -> None:
    x, y = batch(0)
    torch.manual_seed(0)
    module = MLP(64, 3)
    losses = [
        Learner(module, DERpp(), precision=precision).observe(x.reshape(10, 64), y)
        for precision in ("bf16", "float32")
    ]
    assert losses[0] == losses[1]


def test_auto_is_bfloat16_on_a_gpu_only() -> None:
    settings: Settings = learner()._settings
    assert not settings.half
    with pytest.raises(InputError, match="unknown precision 'half': give auto, bf16 or float32"):
        learner(precision="half")
