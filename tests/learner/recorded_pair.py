"""A learner that takes its steps as they come beside one that records them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest
import torch
from tests.learner.some_stream import batch, engine_of
from torch import nn

from recollect import Learner
from recollect.train import compiled
from recollect.train.recorded import Recorded

__all__ = ["Pair", "positive", "steps_of"]

T = TypeVar("T")


class Pair:
    """The same learner twice; whatever one does, the other does in its own way."""

    def __init__(
        self, make: Callable[[], Learner], monkeypatch: pytest.MonkeyPatch, device: str = "cpu"
    ) -> None:
        self._patch, self._device = monkeypatch, device
        self._learners: list[Learner] = []
        self._learners = [self._in(way, self._made, make) for way in range(2)]

    @property
    def plain(self) -> Learner:
        """The one that takes steps as they come."""
        return self._learners[0]

    @property
    def fast(self) -> Learner:
        """The one that records them."""
        return self._learners[1]

    def each(self, action: Callable[[Learner], T]) -> list[T]:
        """What an action returns for each of them."""
        return [self._in(way, action, learner) for way, learner in enumerate(self._learners)]

    def replace(self, make: Callable[[Learner], Learner]) -> None:
        """Go on with other learners."""
        self._learners = self.each(make)

    def observe(self, *args: Any, **how: Any) -> float:
        """Both learn the same; the loss, which is the same."""
        plain, fast = self.each(lambda learner: learner.observe(*args, **how))
        assert fast == plain
        return fast

    def assert_same(self) -> None:
        """Everything that a file has, bit for bit: weights, averages, memory, record and clock."""
        assert self.fast._packed() == self.plain._packed()
        if "eager" not in engine_of(self.plain).fleet.execution:
            raise AssertionError("the steps of the plain learner were recorded or compiled")

    def assert_predicts_the_same(self) -> None:
        """Of examples that none of them has seen."""
        plain, fast = self.each(lambda learner: learner.predict_proba(batch(99)[0]))
        assert (fast == plain).all()

    def _in(self, way: int, action: Callable[..., T], *args: Any) -> T:
        self._patch.setattr(compiled, "RECORDED", {self._device} if way else set())
        return action(*args)

    @staticmethod
    def _made(make: Callable[[], Learner]) -> Learner:
        torch.manual_seed(1)
        return make()


def positive(module: nn.Module) -> nn.Module:
    """The network with weights of about 1, so that its outputs overflow where all inputs do."""
    for weight in module.parameters():
        nn.init.uniform_(weight, 0.9, 1.1)
    return module


def steps_of(learner: Learner) -> Recorded:
    """The recordings of a learner's steps."""
    guarded = engine_of(learner).fleet._stepper.guarded
    assert guarded is not None
    assert guarded.recorded is not None
    return guarded.recorded
