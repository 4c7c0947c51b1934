"""On a GPU: optimisers with clipping and a schedule, in CUDA graphs and compiled."""

from __future__ import annotations

import pytest
import torch
from tests.builders import assert_close
from tests.train.small_images import byte_images
from tests.train.test_execution_optimisers import BATCH, CASES, NETS, trained

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here"),
    # Torch's compiler warns of its own accord; of ours, the later filter makes a failure.
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning",
        "ignore::FutureWarning",
        "default::UserWarning",
        "error::recollect.errors.SlowerWarning",
    ),
]


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("case", CASES)
def test_recorded_steps_do_the_same(case: str, net: str) -> None:
    """In float64, as all of these: a difference is a mistake, and not rounding."""
    plain, fast = trained(case, net, "cuda"), trained(case, net, "cuda", recorded=True)
    assert "CUDA graph" not in plain.execution
    assert "CUDA graph" in fast.execution
    assert_close(fast, plain, 1e-7)


@pytest.mark.parametrize("recorded", [False, True], ids=["compiled", "compiled and recorded"])
@pytest.mark.parametrize("net", ["mlp", "convolutional"])
@pytest.mark.parametrize("case", CASES)
def test_compiled_steps_do_the_same(case: str, net: str, recorded: bool) -> None:
    plain = trained(case, net, "cuda")
    fast = trained(case, net, "cuda", compiled=True, recorded=recorded)
    assert "compiled" in fast.execution
    assert ("CUDA graph" in fast.execution) == recorded
    assert_close(fast, plain, 1e-7)


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("case", CASES)
def test_a_gpu_does_what_a_cpu_does(case: str, net: str) -> None:
    here, there = trained(case, net), trained(case, net, "cuda", recorded=True)
    assert_close(there, here, 1e-7)


@pytest.mark.parametrize("net", NETS)
def test_a_rate_that_is_set_reaches_a_graph(net: str) -> None:
    fleet = trained("nesterov", net, "cuda", recorded=True)
    before = [tensor.clone() for tensor in fleet.weights]
    fleet.set_lr([0.0, 0.0])
    x, y = (tensor.cuda() for tensor in byte_images(40))
    fleet.learn(x, y, BATCH)
    assert all(torch.equal(a, b) for a, b in zip(before, fleet.weights, strict=True))
