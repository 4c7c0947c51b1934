"""A learner whose method stores and rewrites fields of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from tests.learner.some_stream import batch
from torch import Tensor

from recollect import MLP, DivergedError, Field, InputError, Learner, Method, Replay, Step

SILENT: list[bool] = []
WILD = 1e6


@dataclass(frozen=True)
class Counting(Method):
    """ER that counts how often an example was replayed; with wild examples it diverges."""

    name: ClassVar[str] = "counting"
    title: ClassVar[str] = "Counting"
    replay: ClassVar[Replay] = Replay(
        ("x", "y", Field("times", (), torch.int64), Field("parts", (2, 2), torch.float64))
    )

    def loss(self, step: Step) -> Tensor:
        past = step.draw()
        now, then = step.net(step.x, past.x)
        step.rewrite(past, times=past.times + 1, parts=past.parts * 2)
        if not SILENT:
            parts = step.x.view(*step.x.shape[:2], 2, 2).double()
            step.remember(times=torch.zeros_like(step.y), parts=parts)
        wild = torch.where(step.x.abs().amax((1, 2)) > WILD, torch.inf, 0.0)
        return step.criterion(now, step.y) + step.criterion(then, past.y) + wild


def learner_of() -> Learner:
    torch.manual_seed(0)
    return Learner(MLP(4, 1, hidden=(6,)), Counting(), memory=8, replay=3, lr=0.1, seed=2)


def memory_of(learner: Learner) -> dict[str, Tensor]:
    assert learner._now.engine is not None
    return {n: t.clone() for n, t in learner._now.engine.fleet.memory.fields().items()}


def test_a_field_is_its_examples_whatever_happened_to_it() -> None:
    """Classes appear on the way, so the network grows and the memory moves."""
    learner = learner_of()
    for step in range(20):
        learner.observe(*batch(step))
    memory = memory_of(learner)
    assert int(memory["times"].sum()) > 0
    doubled = memory["x"].double().view(1, 8, 2, 2) * 2.0 ** memory["times"][..., None, None]
    assert torch.equal(memory["parts"], doubled)


@pytest.mark.parametrize("failure", ["diverges", "fails after writing"])
def test_a_step_that_goes_wrong_is_taken_back(failure: str) -> None:
    learner, untouched = learner_of(), learner_of()
    for step in range(12):
        learner.observe(*batch(step))
        untouched.observe(*batch(step))
    before = memory_of(learner)
    x, y = batch(12)
    if failure == "diverges":
        with pytest.raises(DivergedError, match="which was undone"):
            learner.observe(x * np.float32(1e9), y, on_outlier="learn")
    else:
        SILENT.append(True)
        try:
            with pytest.raises(InputError, match=r"call step\.remember\(parts=\.\.\., times="):
                learner.observe(x, y)
        finally:
            SILENT.clear()
    for name, tensor in memory_of(learner).items():
        assert torch.equal(tensor, before[name]), name
    for step in range(12, 20):
        assert learner.observe(*batch(step)) == untouched.observe(*batch(step))
    for name, tensor in memory_of(untouched).items():
        assert torch.equal(memory_of(learner)[name], tensor), name


def test_it_is_saved_and_loaded(tmp_path: Path) -> None:
    learner = learner_of()
    for step in range(12):
        learner.observe(*batch(step))
    learner.save(tmp_path / "learner")
    again = Learner.load(tmp_path / "learner", MLP(4, 1, hidden=(6,)), method=Counting())
    for name, tensor in memory_of(learner).items():
        assert torch.equal(memory_of(again)[name], tensor), name
    for step in range(12, 20):
        assert learner.observe(*batch(step)) == again.observe(*batch(step))
    for name, tensor in memory_of(learner).items():
        assert torch.equal(memory_of(again)[name], tensor), name
