"""Every method trains convolutional networks in bfloat16, with weights and state in float32."""

from __future__ import annotations

import pytest
import torch
from tests.train.test_compiled_methods import COUNT, examples, trained

from recollect.methods import METHODS

NEAR = 1 / 3  # of the largest logit; most methods are within a hundredth


@pytest.mark.parametrize("name", [name for name in METHODS if name != "hat"])
def test_results_are_near_those_in_float32(name: str) -> None:
    half, full = (trained(name, half=each, recorded=True) for each in (True, False))
    assert half.execution.endswith("bf16")
    assert not full.execution.endswith("bf16")
    x = examples(1, torch.arange(COUNT))[0]
    near, exact = half.predict(x, 1), full.predict(x, 1)
    assert 0 < (near - exact).abs().max() < NEAR * exact.abs().max()
    theirs = full.tensors()
    for key, tensor in half.tensors().items():
        assert tensor.dtype == theirs[key].dtype, key
        assert bool(tensor.isfinite().all()) is bool(theirs[key].isfinite().all()), key
