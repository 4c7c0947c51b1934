"""Predictions that the first pass of a step makes are those that `predict` makes before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from tests.learner.fuzzing import whole
from torch import Tensor, nn

from recollect import ER, MLP, SGD, DERpp, Learner, Method, Replay, Step
from recollect.methods import MER


@dataclass(frozen=True)
class PastFirst(Method):
    """Replays with a first pass that does not begin with the batch."""

    name: ClassVar[str] = "past-first"
    title: ClassVar[str] = "Past first"
    replay: ClassVar[Replay] = Replay(("x", "y"))

    def loss(self, step: Step) -> Tensor:
        past = step.draw()
        then, now = step.net(past.x, step.x)
        return step.criterion(now, step.y) + step.criterion(then, past.y)


@dataclass(frozen=True)
class DecaysFirst(SGD):
    """Changes the weights before its first pass, so much that this predicts otherwise."""

    name: ClassVar[str] = "decays-first"
    title: ClassVar[str] = "Decays first"

    def update(self, step: Step) -> Tensor:
        for weight in step.model.weights:
            weight.mul_(-0.9)
        return super().update(step)


def sequential() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1))


def in_place() -> nn.Module:
    return nn.Sequential(nn.ReLU(inplace=True), nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))


def dropping() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 1))


class Noted(nn.Module):
    """A network of the user's own that does something else in training mode."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = sequential()

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.inside(x)
        return -logits if self.training else logits


NETWORKS: list[Callable[[], nn.Module]] = [
    lambda: MLP(6, 1, (8,)), sequential, in_place, dropping, Noted,
]  # fmt: skip


def noisy(x: Tensor) -> Tensor:
    return x + torch.randn_like(x)


@pytest.mark.parametrize("number", range(len(NETWORKS)))
@pytest.mark.parametrize("method", [ER(), DERpp(), MER(), PastFirst(), DecaysFirst()], ids=str)
@pytest.mark.parametrize("transform", [None, noisy])
def test_it_is_what_predict_gave_before(number: int, method: Method, transform: Any) -> None:
    made: dict[str, Any] = {"memory": 30, "lr": 0.1, "spare": 2, "transform": transform}
    rng = np.random.default_rng(number)
    torch.manual_seed(1)
    network = NETWORKS[number]()
    one, other = Learner(network, method, **made), Learner(network, method, **made)
    for step in range(30):
        x = rng.normal(size=(4, 6)).astype(np.float32)
        y = rng.integers(0, 2 + step // 8, 4).tolist()
        predicted = other.predict(x) if step else None
        one.observe(x, y)
        other.observe(x, y, predicted=predicted)
    assert whole(one) == whole(other)
    assert one.metrics() == other.metrics()


@pytest.mark.parametrize(("make", "passes"), [(sequential, 1), (dropping, 2), (Noted, 2)])
def test_how_many_passes_a_step_takes(make: Callable[[], nn.Module], passes: int) -> None:
    learner = Learner(make(), ER(), memory=30)
    x, y = np.ones((4, 6), np.float32), [0, 1, 0, 1]
    for _ in range(3):
        learner.observe(x, y)
    calls: list[int] = []
    engine = learner._now.engine
    assert engine is not None
    engine.fleet.network.module.register_forward_hook(lambda *given: calls.append(1))
    learner.observe(x, y)
    assert len(calls) == passes
