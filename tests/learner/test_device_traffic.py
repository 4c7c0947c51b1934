"""What a recorded `observe` launches and transfers outside its recording, counted without a GPU.

Outside its two recordings, a step copies the weights to be able to undo it. It sends one block of
bytes, and reads one. These bounds must not grow: on a GPU, every launch costs microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from tests.learner.pretended_device import DEVICE, LAUNCH, READ, SENT, Pretended
from torch import nn

from recollect import ER, MLP, SGD, DERpp, Learner, Method
from recollect.train import compiled, guarded, recorded
from recollect.train.fixed_inputs import FixedInputs, Inputs

BATCH, STEPS = 8, 20
NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "MLP": (lambda: MLP(8, 4, hidden=(8,)), (8,)),
    "CNN": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 4)
        ),
        (1, 8, 8),
    ),
}


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pretended]:
    """A pretended device on which steps are recorded; recordings are counted separately."""
    pretended = Pretended()

    def replay(name: str) -> None:
        real = getattr(recorded._Recording, name)

        def replayed(self: recorded._Recording) -> None:
            with pretended.replaying():
                real(self)

        monkeypatch.setattr(recorded._Recording, name, replayed)

    def sent(inputs: Inputs, device: torch.device) -> Inputs:
        fixed = FixedInputs(inputs, device)
        fixed.fill(inputs)
        return fixed.tensors

    replay("_once")
    replay("_follow")
    for module in (guarded, recorded):
        monkeypatch.setattr(module, "sent", sent)
    monkeypatch.setattr(compiled, "RECORDED", {"cpu"})
    with pretended:
        yield pretended


def learned(net: str, method: Method, device: Pretended, **how: Any) -> Learner:
    """A learner after some recorded steps, all of which were counted but the first."""
    make, shape = NETWORKS[net]
    torch.manual_seed(0)
    learner = Learner(
        make(), method, memory=16, replay=BATCH, classes=range(4), device=DEVICE, **how
    )
    x = torch.rand(2 * STEPS, BATCH, *shape)
    y = torch.randint(4, (2 * STEPS, BATCH)).tolist()
    for step in range(2 * STEPS):
        if step == STEPS:
            device.clear()
        learner.observe(x[step], y[step])
    return learner


@pytest.mark.parametrize("net", NETWORKS)
@pytest.mark.parametrize("method", [SGD(), ER(), DERpp()], ids=str)
def test_a_step_sends_once_reads_once_and_copies_the_weights(
    method: Method, net: str, device: Pretended
) -> None:
    learned(net, method, device)
    found = {kind: device.of(kind) / STEPS for kind in (LAUNCH, SENT, READ)}
    assert found == {LAUNCH: 1, SENT: 1, READ: 1}, device.counts
    assert device.recorded[LAUNCH, "sum"] >= STEPS, "the steps themselves are recorded"
    assert not device.mixed, "an operation on tensors of the host and of the device"


@pytest.mark.parametrize("how", [{"optimiser": "AdamW"}, {"schedule": "step", "schedule_steps": 9}])
def test_optimisers_and_schedules_add_nothing(how: dict[str, Any], device: Pretended) -> None:
    learned("MLP", DERpp(), device, **how)
    assert {kind: device.of(kind) / STEPS for kind in (LAUNCH, SENT, READ)} == {
        LAUNCH: 1, SENT: 1, READ: 1,
    }, device.counts  # fmt: skip


def test_a_class_balanced_memory_reads_its_counts_and_labels(device: Pretended) -> None:
    learned("MLP", ER(balanced=1), device)
    assert device.of(SENT) <= 2 * STEPS, device.counts
    assert device.of(READ) <= 3 * STEPS, device.counts


def test_the_counter_sees_launches_transfers_and_mixtures() -> None:
    device = Pretended()
    with device:
        here = torch.ones(3).to(DEVICE)
        there = torch.ones(3)
        assert (here * 2).sum().item() == 6
        _ = here.view(3, 1), here[1:], there + there
        here.copy_(there)
        assert not device.mixed
        _ = here + there
    assert [device.of(kind) for kind in (LAUNCH, SENT, READ)] == [3, 2, 1], device.counts
    assert device.mixed == {"add"}
