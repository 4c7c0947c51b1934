"""Networks whose outputs are not classes, for methods with predictions of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch
from tests.builders import fleet_of
from tests.train.stopping import job_of
from torch import Tensor

from recollect import MLP, InputError, Method, Query, Replay, Step
from recollect.streams import TaskStream
from recollect.train import train


@dataclass(frozen=True)
class Embedding(Method):
    """Moves outputs to the corners of a cube, and predicts the class whose corner is nearest."""

    name: ClassVar[str] = "embedding"
    title: ClassVar[str] = "Embedding"
    replay: ClassVar[Replay] = Replay(("x", "y", "logits"))

    def loss(self, step: Step) -> Tensor:
        past = step.draw()
        now, then = step.net(step.x, past.x)
        step.remember(logits=now)
        pull = (now - corners(now)[step.y]).square().mean((1, 2))
        stay = (then - past.logits).square().sum((1, 2)) / max(then[0].numel(), 1)
        again = (then - corners(now)[past.y]).square().sum((1, 2)) / max(then[0].numel(), 1)
        return pull + 0.1 * stay + again

    def predict(self, query: Query) -> Tensor:
        outputs = query.model.logits(query.x)
        return -torch.cdist(outputs, corners(outputs).expand(len(outputs), -1, -1))


def corners(outputs: Tensor) -> Tensor:
    """A corner `[C, outputs]` for each of four classes."""
    bits = torch.arange(4, device=outputs.device)[:, None] >> torch.arange(outputs.shape[2])
    return (bits & 1).to(outputs.dtype)


@pytest.mark.parametrize("outputs", [2, 9])
def test_it_learns_and_stores_what_the_network_says(outputs: int, toy_stream: TaskStream) -> None:
    def network() -> MLP:
        return MLP(6, outputs, hidden=(16,))

    runs = job_of(toy_stream, Embedding(), Embedding(), epochs=20, buffer=60, network=network)
    rates = tuple(replace(run, lr=0.1) for run in runs.runs)
    for result in train(replace(runs, runs=rates)):
        assert result.accuracy["class"] > 50
        assert result.memory_bytes == 60 * (6 * 4 + 8 + outputs * 4)
    fleet = fleet_of([Embedding()] * 2, network, classes=4, memory=8, replay=3)
    x = torch.rand(2, 12, 6, dtype=torch.float64)
    fleet.learn(x, torch.arange(12).expand(2, -1) % 4, 4)
    assert fleet.memory.fields().logits.shape == (2, 8, outputs)
    assert fleet.logits(x).shape == (2, 12, outputs)
    assert fleet.predict(x).shape == (2, 12, 4)


def test_other_methods_need_one_for_every_class() -> None:
    @dataclass(frozen=True)
    class Plain(Embedding):
        predict = Method.predict

    with pytest.raises(InputError, match=r"must return 4 logits per example, not \[9\]"):
        fleet_of([Plain()], lambda: MLP(6, 9), classes=4, memory=8, replay=3)
