"""Recorded and compiled steps of optimisers, with clipping and schedules, are the plain ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.builders import assert_close
from tests.train.small_images import CLASSES, SHAPE, byte_images, convolutional, dense, mlp
from torch import nn

from recollect import DERpp, Fleet
from recollect.core.images import Images
from recollect.train.compiled import compiler_exists
from recollect.train.optimisation import Optimisation

IMAGES = Images(mean=(0.5, 0.4, 0.3), std=(0.2, 0.25, 0.3), padding=2)
COUNT, BATCH = 120, 4
STEPS = 2 * COUNT // BATCH
NETS: dict[str, Callable[[], nn.Module]] = {
    "mlp": mlp, "dense": dense, "convolutional": convolutional,
}  # fmt: skip
# Of the two runs, each has numbers of its own.
CASES: dict[str, tuple[Optimisation, list[dict[str, float]]]] = {
    "clip": (Optimisation(schedule="cosine"), [{"clip": 0.5}, {"weight_decay": 0.1}]),
    "momentum": (
        Optimisation(schedule="cosine"),
        [{"momentum": 0.9, "clip": 0.5}, {"momentum": 0.5, "warmup": 9.0}],
    ),
    "nesterov": (
        Optimisation(nesterov=True, schedule="step"),
        [{"momentum": 0.9, "clip": 0.5}, {"momentum": 0.5, "decay_every": 7.0}],
    ),
    "adam": (Optimisation("Adam", schedule="cosine"), [{"clip": 0.5}, {"beta1": 0.5}]),
    "adamw": (
        Optimisation("AdamW", schedule="cosine"),
        [{"clip": 0.5, "warmup": 9.0}, {"weight_decay": 0.1}],
    ),
}


def trained(case: str, net: str, device: str = "cpu", **way: bool) -> Fleet:
    """A fleet of two runs that has taken enough steps to be recorded, and some of another size."""
    names, numbers = CASES[case]
    given: dict[str, Any] = {"recorded": False, "compiled": False, **way}
    fleet = Fleet(
        [DERpp(0.4, 0.9), DERpp(1.1, 0.0)], NETS[net], seeds=[0, 1], lr=[0.02, 0.01],
        classes=CLASSES, shape=SHAPE, memory=8, replay=3, stored=torch.uint8, images=IMAGES,
        dtype=torch.float64, device=device, steps=STEPS, optimisation=names, numbers=numbers,
        **given,
    )  # fmt: skip
    x, y = (tensor.to(device) for tensor in byte_images(2 * COUNT + 2))
    fleet.learn(x[:, :COUNT], y[:, :COUNT], BATCH)
    fleet.learn(x[:, COUNT:], y[:, COUNT:], BATCH)
    return fleet


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("case", CASES)
def test_recorded_steps_do_the_same(case: str, net: str) -> None:
    plain, fast = trained(case, net), trained(case, net, recorded=True)
    assert "recorded step" in fast.execution
    assert fast._stepper._execution._recordings, "steps were recorded"
    assert_close(fast, plain, 1e-9)
    averages = [t for name, t in fast.tensors().items() if name.startswith("optimiser.")]
    assert bool(averages) == (case != "clip")
    assert all(tensor.any() for tensor in averages)


@pytest.mark.parametrize("case", CASES)
def test_a_schedule_is_read_anew_in_every_recorded_step(case: str) -> None:
    """At the end of a cosine nothing moves any more; a factor that was recorded once would."""
    names, _ = CASES[case]
    fleet = trained(case, "mlp", recorded=True)
    before = [tensor.clone() for tensor in fleet.weights]
    x, y = byte_images(40)
    fleet.learn(x, y, BATCH)
    moved = [not torch.equal(a, b) for a, b in zip(before, fleet.weights, strict=True)]
    assert any(moved) == (names.schedule == "step")


def test_a_rate_that_is_set_reaches_recorded_steps() -> None:
    fleets = [trained("nesterov", net, recorded=True) for net in ("mlp", "convolutional")]
    for fleet in fleets:
        assert fleet.network.strategy == ("loop" if fleet is fleets[1] else "broadcast")
        before = [tensor.clone() for tensor in fleet.weights]
        fleet.set_lr([0.0, 0.0])
        x, y = byte_images(40)
        fleet.learn(x, y, BATCH)
        assert all(torch.equal(a, b) for a, b in zip(before, fleet.weights, strict=True))


@pytest.mark.skipif(not compiler_exists(), reason="there is no C++ compiler on this machine")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("case", ["clip", "nesterov", "adamw"])
def test_compiled_and_recorded_steps_do_the_same(case: str) -> None:
    plain, fast = trained(case, "mlp"), trained(case, "mlp", compiled=True, recorded=True)
    assert "recorded step, compiled" in fast.execution
    assert_close(fast, plain, 1e-9)
