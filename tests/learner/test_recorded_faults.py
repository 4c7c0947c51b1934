"""A recorded step that fails is undone as one that is taken as it comes; nothing else changes."""

from __future__ import annotations

import pkgutil
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.learner.recorded_pair import Pair, positive, steps_of
from tests.learner.some_stream import batch, engine_of, normalised
from torch import Tensor, nn

from recollect import MLP, DERpp, DivergedError, InputError, Learner
from recollect.errors import SlowerWarning
from recollect.train import execution, recorded

NETS: dict[str, Callable[[], nn.Module]] = {
    "mlp": lambda: MLP(4, 3, hidden=(6,)), "normalised": normalised,
}  # fmt: skip
WARNING = (
    "DER++: a step could not be recorded, so steps run eagerly, which gives the same results "
    "more slowly ({}: operation not permitted)"
)


@pytest.fixture(autouse=True)
def afresh() -> None:
    """Nothing was said before."""
    execution.say_slower.cache_clear()


def learner_with(module: nn.Module, **how: Any) -> Learner:
    return Learner(module, DERpp(), memory=12, replay=4, lr=0.05, **how)


def learn(pair: Pair, steps: int) -> None:
    for step in range(steps):
        pair.observe(*batch(step))


def ready(pair: Pair) -> Pair:
    """After so many steps that they are recorded."""
    learn(pair, 9)
    assert len(steps_of(pair.fast)) == 1
    return pair


@pytest.mark.parametrize("optimiser", ["SGD", "Adam"])
@pytest.mark.parametrize("net", NETS)
def test_a_step_that_diverges_is_undone(
    net: str, optimiser: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = ready(
        Pair(lambda: learner_with(positive(NETS[net]()), optimiser=optimiser), monkeypatch)
    )
    for step in range(9, 15):
        x, y = batch(step)
        before, predicted = pair.fast._packed(), pair.fast.predict_proba(x)
        for learner in (pair.plain, pair.fast):
            with pytest.raises(DivergedError, match="was undone"):
                learner.observe(np.full_like(x, 3e38), y, on_outlier="learn")
        assert pair.fast._packed() == before
        assert (pair.fast.predict_proba(x) == predicted).all()
        pair.observe(x, y)
        pair.assert_same()
    assert len(steps_of(pair.fast)) == 1


def test_large_weights_that_are_finite_are_not_taken_for_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The sum of absolute values says nothing then, and the exact check decides."""

    class Large(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(4, 3)
            self.register_buffer("large", torch.tensor([3e38, -3e38]))

        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = self.head(x)
            return logits

    pair = ready(Pair(lambda: learner_with(Large()), monkeypatch))
    pair.observe(*batch(9))
    pair.assert_same()
    numbers = engine_of(pair.fast).guard.numbers(torch.zeros(1))
    assert not numbers.isfinite().all(), "otherwise this tests nothing"


@pytest.mark.parametrize("error", [KeyboardInterrupt, InputError])
@pytest.mark.parametrize(
    "where",
    [
        "recollect.learner.engine.engine.Engine.publish",
        "recollect.train.guard.Guard.note_rows",
        "recollect.memory.memory.Memory.write",
        "recollect.train.guarded.GuardedSteps._checked",
        "recollect.train.fixed_inputs.FixedInputs.fill",
        "recollect.train.recorded.Recorded.follow",
    ],
)
def test_whatever_fails_around_the_recorded_part_is_undone(
    where: str, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = ready(Pair(lambda: learner_with(normalised()), monkeypatch))
    before, calls = pair.fast._packed(), 0
    original = pkgutil.resolve_name(where)

    def refuse(*given: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise error("stop")
        return original(*given)

    with monkeypatch.context() as patched:
        patched.setattr(where, refuse)
        with pytest.raises(error, match="stop"):
            pair.fast.observe(*batch(9))
    assert pair.fast._packed() == before
    for step in range(9, 14):
        pair.observe(*batch(step))
    pair.assert_same()
    assert len(steps_of(pair.fast)) == 1


class Frozen(nn.Module):
    """Frozen weights that a pass in training changes in place all the same."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4), requires_grad=False)
        self.still = nn.Parameter(torch.ones(4), requires_grad=False)
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.scale.mul_(0.99)
        logits: Tensor = self.head(x * self.scale * self.still)
        return logits


def test_frozen_weights_that_change_uncounted_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch counts no change in place when a CUDA graph is replayed; here the counter stays too."""
    pair = ready(Pair(lambda: learner_with(Frozen()), monkeypatch))
    fleet = engine_of(pair.fast).fleet
    guard = engine_of(pair.fast).guard
    still = [guard._tensors[index] for index in guard._seldom]
    assert [t.data_ptr() for t in still] == [fleet.weights.named()["still"].data_ptr()]
    before = pair.fast._packed()
    with monkeypatch.context() as patched:
        patched.setattr("recollect.learner.engine.engine.Engine.publish", _refuse)
        with pytest.raises(RuntimeError, match="no"):
            pair.fast.observe(*batch(9))
    assert pair.fast._packed() == before


def _refuse(*_: object) -> None:
    raise RuntimeError("no")


@pytest.mark.parametrize(
    "error", [RuntimeError, AssertionError, torch.OutOfMemoryError, InputError], ids=str
)
def test_a_capture_that_fails_costs_speed_and_a_warning(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(function: Callable[[], None], pool: object, device: object, *, mode: str) -> Any:
        assert mode == "thread_local", "other threads may predict meanwhile"
        raise error("operation not permitted\nand more")

    monkeypatch.setattr(recorded, "captured", refuse)
    pair = Pair(lambda: learner_with(normalised()), monkeypatch)
    pair.observe(*batch(0))
    engine = engine_of(pair.fast)
    steps_of(pair.fast)._pool = (0, 1)  # type: ignore[assignment]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for step in range(1, 12):
            pair.observe(*batch(step))
            pair.assert_same()
    told = {str(each.message) for each in said if each.category is SlowerWarning}
    assert told == {WARNING.format(error.__name__)}
    assert engine.fleet.execution == engine_of(pair.plain).fleet.execution
    assert not steps_of(pair.fast).possible


class Counting(nn.Module):
    """A network that does something else at every third pass in training."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.passes = nn.Linear(4, 3), 0

    def forward(self, x: Tensor) -> Tensor:
        self.passes += self.training
        logits: Tensor = self.head(x if self.passes % 3 else 2 * x)
        return logits


def test_a_network_that_counts_its_passes_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CUDA graph would repeat one of them for ever."""
    pair = Pair(lambda: learner_with(nn.Sequential(Counting())), monkeypatch)
    with pytest.warns(SlowerWarning, match=r"attribute 0\.passes changes from call to call"):
        learn(pair, 8)
    pair.assert_same()
    assert "eager" in engine_of(pair.fast).fleet.execution


def test_an_interrupt_during_a_capture_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> Any:
        raise KeyboardInterrupt

    pair = Pair(lambda: learner_with(normalised()), monkeypatch)
    for step in range(4):
        pair.observe(*batch(step))
    steps_of(pair.fast)._pool = (0, 1)  # type: ignore[assignment]
    before = pair.fast._packed()
    with monkeypatch.context() as patched:
        patched.setattr(recorded, "captured", refuse)
        with pytest.raises(KeyboardInterrupt):
            pair.fast.observe(*batch(4))  # the fourth step of its shape
    assert pair.fast._packed() == before
    steps_of(pair.fast)._pool = None
    for step in range(4, 9):
        pair.observe(*batch(step))
    pair.assert_same()
