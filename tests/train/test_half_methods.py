"""Every method trains convolutional networks in bfloat16, with weights and state in float32."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from tests.train.test_compiled_methods import CLASSES, COUNT, NETWORKS, RUNS, SHAPE, examples, small

from recollect import Fleet
from recollect.methods import METHODS

NEAR = 1 / 3  # of the largest logit; most methods are within a hundredth


def trained(name: str, half: bool) -> Fleet:
    """Two tasks, so that there is something to replay in the second."""
    kind = METHODS[name]
    fleet = Fleet(
        [kind()] * RUNS, NETWORKS.get(name, small), seeds=[0, 1], lr=[0.02, 0.01],
        classes=CLASSES, shape=SHAPE, memory=8, replay=4, stored=torch.uint8,
        half=half, recorded=True, tasks=2, per_task=2,
    )  # fmt: skip
    batch = kind.needs.batch_size or 4
    for task in range(2):
        known = partial(examples, task)
        fleet.start_task(known, COUNT, batch)
        fleet.learn(*known(torch.arange(COUNT)), batch)
        for _ in range(fleet.end_task(known, COUNT, batch)):
            fleet.learn(*known(torch.arange(COUNT)), batch)
        fleet.next_task(COUNT)
    return fleet


@pytest.mark.parametrize("name", [name for name in METHODS if name != "hat"])
def test_results_are_near_those_in_float32(name: str) -> None:
    half, full = trained(name, half=True), trained(name, half=False)
    assert half.execution.endswith("bf16")
    assert not full.execution.endswith("bf16")
    x = examples(1, torch.arange(COUNT))[0]
    near, exact = half.predict(x, 1), full.predict(x, 1)
    assert 0 < (near - exact).abs().max() < NEAR * exact.abs().max()
    theirs = full.tensors()
    for key, tensor in half.tensors().items():
        assert tensor.dtype == theirs[key].dtype, key
        assert bool(tensor.isfinite().all()) is bool(theirs[key].isfinite().all()), key
