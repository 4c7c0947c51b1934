"""On a GPU: recorded and compiled steps of a learner do what those taken as they come do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.builders import learned
from tests.learner.recorded_pair import Pair, positive, steps_of
from tests.learner.some_stream import batch, engine_of, network, normalised
from torch import Tensor, nn

from recollect import ER, MLP, DERpp, DivergedError, Learner, Method
from recollect.errors import SlowerWarning
from recollect.methods import METHODS
from recollect.train import execution, recorded
from recollect.train.compiled import compiler_exists

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here"),
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning",
        "ignore::FutureWarning",
        "default::UserWarning",
        "error::recollect.errors.SlowerWarning",
    ),
]

FIT = [
    kind
    for kind in METHODS.values()
    if not (kind.needs.boundaries or kind.needs.task_id or kind.needs.all_data)
]
NETS: dict[str, Callable[[], nn.Module]] = {
    "mlp": lambda: MLP(4, 3, hidden=(6,)), "dense": network, "normalised": normalised,
}  # fmt: skip
ROUNDING = 1e-7  # in float64: sums in another order, magnified over a few steps


@pytest.fixture(autouse=True)
def afresh() -> None:
    """Nothing was said before."""
    execution.say_slower.cache_clear()


def learner_with(module: nn.Module, method: Method | None = None, **how: Any) -> Learner:
    kept: dict[str, Any] = {"memory": 12, "replay": 4, "lr": 0.05, "classes": [0, 1, 2]}
    return Learner(module.double(), method or DERpp(), device="cuda", **(kept | how))


def made(make: Callable[[], Learner], monkeypatch: pytest.MonkeyPatch) -> Pair:
    return Pair(make, monkeypatch, device="cuda")


def learn(pair: Pair, first: int, last: int, size: int = 5) -> None:
    """Losses are alike up to rounding."""
    for step in range(first, last):
        x, y = batch(step, size)
        losses = pair.each(lambda learner, x=x, y=y: learner.observe(x.astype("f8"), y))  # type: ignore[misc]
        assert losses[1] == pytest.approx(losses[0], abs=1e-6)


def assert_close(pair: Pair) -> None:
    """What is stored and drawn exactly, what is computed up to rounding."""
    plain, fast = (engine_of(learner).fleet for learner in (pair.plain, pair.fast))
    assert fast.clock == plain.clock
    assert "eager" in plain.execution
    expected = learned(plain)
    for name, tensor in learned(fast).items():
        close = ROUNDING if tensor.is_floating_point() and name != "memory.x" else 0
        torch.testing.assert_close(tensor, expected[name], rtol=0, atol=close)


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("kind", FIT, ids=lambda kind: kind.name)
def test_every_method_for_streams(
    kind: type[Method], net: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = made(lambda: learner_with(NETS[net](), kind(), lr=0.01), monkeypatch)
    learn(pair, 0, 12)
    assert_close(pair)
    assert len(steps_of(pair.fast)) == 1
    assert "CUDA graph" in engine_of(pair.fast).fleet.execution


@pytest.mark.parametrize("optimiser", ["SGD", "Adam", "AdamW"])
def test_optimisers_a_schedule_and_a_rate_that_is_set(
    optimiser: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    how: dict[str, Any] = {"schedule": "cosine", "schedule_steps": 30, "clip": 0.3}
    pair = made(lambda: learner_with(network(), optimiser=optimiser, **how), monkeypatch)
    learn(pair, 0, 10)
    pair.plain.lr = pair.fast.lr = 0.001
    learn(pair, 10, 20)
    assert_close(pair)


@pytest.mark.parametrize("optimiser", ["SGD", "Adam"])
@pytest.mark.parametrize("net", ["mlp", "normalised"])
def test_a_step_that_diverges_is_undone_exactly(net: str, optimiser: str) -> None:
    torch.manual_seed(0)
    module = positive(NETS[net]())
    learner = Learner(module, DERpp(), memory=12, replay=4, optimiser=optimiser, device="cuda")
    for step in range(10):
        learner.observe(*batch(step))
    assert len(steps_of(learner)) == 1
    for step in range(10, 15):
        x, y = batch(step)
        before, predicted = learner._packed(), learner.predict_proba(x)
        with pytest.raises(DivergedError, match="was undone"):
            learner.observe(np.full_like(x, 3e38), y, on_outlier="learn")
        assert learner._packed() == before
        assert (learner.predict_proba(x) == predicted).all()
        learner.observe(x, y)
        assert learner._packed() != before


def test_a_step_that_is_interrupted_after_its_replay_is_undone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learner = learner_with(normalised())
    for step in range(10):
        learner.observe(*batch(step))
    before = learner._packed()

    def refuse(*_: object) -> None:
        raise KeyboardInterrupt

    for where in ("recollect.train.guard.Guard.note_rows",
                  "recollect.learner.engine.engine.Engine.publish"):  # fmt: skip
        with monkeypatch.context() as patched:
            patched.setattr(where, refuse)
            with pytest.raises(KeyboardInterrupt):
                learner.observe(*batch(10))
        assert learner._packed() == before


class Frozen(nn.Module):
    """Frozen weights that a pass in training changes in place all the same."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4), requires_grad=False)
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.scale.mul_(0.99)
        logits: Tensor = self.head(x * self.scale)
        return logits


def test_frozen_weights_that_a_graph_changes_uncounted_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = made(lambda: learner_with(Frozen()), monkeypatch)
    learn(pair, 0, 12)
    assert_close(pair)
    test_a_step_that_is_interrupted_after_its_replay_is_undone(monkeypatch)


def test_sizes_growth_ids_and_holes(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = made(lambda: learner_with(network(), ER(), classes=None, spare=1), monkeypatch)

    def forget(learner: Learner) -> None:
        learner.forget([row.id for row in learner.remembered() if row.id is not None][:5])

    for step in range(80):
        x, y = batch(step, size=1 + step % 4)
        labels = [label + 3 * (step // 30) for label in y]
        ids = [f"{step} {row}" for row in range(len(y))]
        pair.each(lambda one, x=x, y=labels, i=ids: one.observe(x.astype("f8"), y, ids=i))  # type: ignore[misc]
        if step in (20, 50):
            pair.each(forget)
    assert_close(pair)
    assert 1 <= len(steps_of(pair.fast)) <= recorded.MOST


def test_memory_does_not_grow_with_the_sizes_that_arrive() -> None:
    learner = learner_with(normalised())
    held = []
    for turn in range(6):
        for step in range(40):
            for _ in range(2):
                learner.observe(*batch(step, size=1 + step))
        torch.cuda.synchronize()
        held.append(torch.cuda.memory_allocated())
        del turn
    assert held[-1] <= 1.5 * held[2]


def test_files_of_either_device_are_continued(tmp_path: Path) -> None:
    learner = learner_with(normalised())
    for step in range(12):
        learner.observe(*batch(step))
    learner.save(tmp_path / "learner")
    again = Learner.load(tmp_path / "learner", normalised().double(), device="cuda")
    here = Learner.load(tmp_path / "learner", normalised().double())
    assert again._packed() == learner._packed()
    for step in range(12, 20):
        losses = [each.observe(*batch(step)) for each in (learner, again, here)]
        assert losses == pytest.approx(losses[:1] * 3, abs=1e-6)


def test_predictions_of_other_threads_while_steps_are_captured_and_replayed() -> None:
    """They see a state between two steps: the very first is known, and nothing fails."""
    learner = learner_with(normalised())
    for step in range(2):
        learner.observe(*batch(step))
    x, stop = batch(99, 20)[0], threading.Event()
    errors: list[Exception] = []
    seen: set[bytes] = set()

    def predict() -> None:
        while not stop.is_set():
            try:
                seen.add(learner.predict_proba(x).tobytes())
            except Exception as error:
                errors.append(error)
                return

    threads = [threading.Thread(target=predict) for _ in range(3)]
    for thread in threads:
        thread.start()
    states = {learner.predict_proba(x).tobytes()}
    for step in range(2, 60):
        learner.observe(*batch(step, size=5 + step % 3))
        states.add(learner.predict_proba(x).tobytes())
        time.sleep(0.002)
    stop.set()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert len(steps_of(learner)) == 3
    assert seen <= states, "a prediction saw a state in the middle of a step"


@pytest.mark.parametrize("way", ["host waits", "exception"])
@pytest.mark.filterwarnings("default::recollect.errors.SlowerWarning")
def test_a_capture_that_fails_changes_no_result(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def update(self: ER, step: Any) -> Tensor:
        loss = ER.loss(self, step)
        step.model.descend(step.model.gradient(loss))
        if torch.cuda.is_current_stream_capturing():
            if way == "exception":
                raise ValueError("not in a graph")
            loss.sum().item()
        return loss.detach()

    monkeypatch.setattr(ER, "update", update)
    pair = made(lambda: learner_with(network(), ER()), monkeypatch)
    with pytest.warns(SlowerWarning, match="ER: a step could not be recorded"):
        learn(pair, 0, 12)
    assert_close(pair)
    assert "eager" in engine_of(pair.fast).fleet.execution
    assert torch.rand(3, device="cuda").isfinite().all(), "torch's generator works"


@pytest.mark.skipif(not compiler_exists(), reason="there is no C++ compiler on this machine")
@pytest.mark.parametrize("net", NETS)
def test_compiled_steps(net: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = made(lambda: learner_with(NETS[net](), lr=0.01), monkeypatch)
    fast = learner_with(_seeded(NETS[net]), lr=0.01, compiled=True)
    for step in range(20):
        x, y = batch(step)
        plain = pair.plain.observe(x.astype("f8"), y)
        assert fast.observe(x.astype("f8"), y) == pytest.approx(plain, abs=1e-6)
    assert {"CUDA graph", "compiled"} <= set(engine_of(fast).fleet.execution.split(", "))


def _seeded(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(1)
    return make()


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is no second GPU here")
def test_a_learner_on_a_gpu_that_is_not_the_present_one() -> None:
    learner = Learner(network(), DERpp(), memory=12, replay=4, device="cuda:1")
    here = Learner(network(), DERpp(), memory=12, replay=4)
    for step in range(12):
        assert learner.observe(*batch(step)) == pytest.approx(here.observe(*batch(step)), abs=1e-3)
    assert len(steps_of(learner)) == 1
