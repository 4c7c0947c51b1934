"""Predictions read the state between two steps, and wait for neither a step nor a checkpoint."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
from tests.learner.some_stream import batch
from torch import Tensor, nn
from torch.nn import functional

from recollect import DERpp, DivergedError, Field, InputError, Learner, Method, Replay, Setup, Step
from recollect.learner.engine.views import ROWS
from recollect.methods import Query, Spec
from recollect.train import compiled

STEP, GO_ON = threading.Event(), threading.Event()


@pytest.fixture(autouse=True, params=["as they come", "recorded"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How steps are taken."""
    monkeypatch.setattr(compiled, "RECORDED", {"cpu"} if request.param == "recorded" else set())


class Held(nn.Module):
    """A network whose passes in training wait, once they are told to."""

    waits: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.head = nn.BatchNorm1d(4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.norm(x))
        if self.training and Held.waits and x.any():
            STEP.set()
            assert GO_ON.wait(60)
        return logits


class HeldStep:
    """A step in another thread that has begun and does not end until `finish`."""

    def __init__(self, learner: Learner, x: object, y: object) -> None:
        STEP.clear()
        GO_ON.clear()
        Held.waits = True
        self.errors: list[Exception] = []
        self._thread = threading.Thread(target=self._observe, args=(learner, x, y))
        self._thread.start()
        assert STEP.wait(60)

    def _observe(self, learner: Learner, x: object, y: object) -> None:
        try:
            learner.observe(x, y, on_outlier="learn")
        except Exception as error:
            self.errors.append(error)

    def finish(self) -> None:
        Held.waits = False
        GO_ON.set()
        self._thread.join(60)
        assert not self._thread.is_alive()


def learner_for(module: nn.Module) -> Learner:
    learner = Learner(module, DERpp(), memory=20, lr=0.1, replay=4)
    for step in range(4):
        learner.observe(*batch(step))
    return learner


def test_a_prediction_does_not_wait_for_a_step() -> None:
    learner, x = learner_for(Held()), batch(9)[0]
    before = learner.predict_proba(x)
    held = HeldStep(learner, *batch(4))
    during = [learner.predict_proba(x) for _ in range(3)]
    labels = learner.predict(x)
    held.finish()
    assert held.errors == []
    assert all((each == before).all() for each in during), "it is the state before the step"
    assert labels == [learner.classes[row] for row in before.argmax(1)]
    assert not (learner.predict_proba(x) == before).all()


def test_nor_for_one_that_is_undone() -> None:
    learner, x = learner_for(Held()), batch(9)[0]
    before = learner.predict_proba(x)
    for _ in range(2):
        held = HeldStep(learner, np.full((5, 4), 3e38, np.float32), batch(4)[1])
        assert (learner.predict_proba(x) == before).all()
        held.finish()
        assert isinstance(held.errors[0], DivergedError | InputError)
        assert (learner.predict_proba(x) == before).all()
    learner.observe(*batch(4))
    assert not (learner.predict_proba(x) == before).all()


def test_a_class_that_a_step_brings_is_not_there_before_its_end() -> None:
    learner, x = learner_for(Held()), batch(9)[0]
    before = learner.predict_proba(x)
    held = HeldStep(learner, batch(4)[0], ["new", 0, 1, 2, "new"])
    assert (learner.predict_proba(x) == before).all()
    held.finish()
    assert learner.predict_proba(x).shape[1] == before.shape[1] + 1


class Slow(nn.Module):
    """A network whose predictions of many rows wait."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training and len(x) == ROWS:
            STEP.set()
            assert GO_ON.wait(60)
        logits: Tensor = self.head(x)
        return logits


def test_a_step_does_not_wait_for_a_prediction_of_many_rows() -> None:
    learner = learner_for(Slow())
    STEP.clear()
    GO_ON.clear()
    x = np.random.default_rng(0).normal(size=(2 * ROWS + 5, 4)).astype(np.float32)
    GO_ON.set()
    expected = learner.predict_proba(x)
    GO_ON.clear()
    STEP.clear()
    found: list[np.ndarray] = []
    thread = threading.Thread(target=lambda: found.append(learner.predict_proba(x)))
    thread.start()
    assert STEP.wait(60)
    for step in range(4, 8):
        learner.observe(*batch(step))
    GO_ON.set()
    thread.join(60)
    assert (found[0] == expected).all(), "and it has the state at its beginning"


@dataclass(frozen=True)
class Sums(Method):
    """Predicts from its state and its memory, which always agree between two steps."""

    name: ClassVar[str] = "sums"
    title: ClassVar[str] = "Sums"
    replay: ClassVar[Replay] = Replay(("x", "y", Field("mark", (), torch.float32)))

    def setup(self, spec: Spec) -> Setup:
        return Setup(state=lambda model: {"step": torch.zeros(spec.runs)})

    def loss(self, step: Step) -> Tensor:
        step.draw()
        step.state["step"].add_(1)
        # Every row that is stored now has the number of this step.
        step.remember(mark=step.state["step"][:, None].expand(-1, step.y.shape[1]).clone())
        return step.criterion(step.net(step.x)[0], step.y)

    def predict(self, query: Query) -> Tensor:
        newest = query.memory.fields()["mark"].amax()
        apart = float(newest != query.state["step"][0]) + float(query.clock.steps != newest)
        features = query.model.features(query.x)
        return functional.pad(features[..., :0], (0, query.classes)) + apart


def test_a_method_that_predicts_from_its_memory_sees_one_moment() -> None:
    learner = Learner(Held(), Sums(), memory=200, classes=[0, 1, 2])
    for step in range(3):
        learner.observe(*batch(step))
    logits, known, _ = learner._scores(batch(9)[0])
    assert known.known == (0, 1, 2)
    assert not logits.any()
    strange: list[float] = []
    errors: list[Exception] = []
    over = threading.Event()

    def look(rows: int) -> None:
        x = np.tile(batch(9)[0], (rows // 5, 1))
        try:
            while not over.is_set():
                strange.append(float(learner._scores(x)[0].max()))
        except Exception as error:
            errors.append(error)

    # The last one gets copies of the network, to which the others add hooks.
    threads = [threading.Thread(target=look, args=(rows,)) for rows in (5, 5, ROWS + 5)]
    for thread in threads:
        thread.start()
    for step in range(3, 30):
        learner.observe(*batch(step))
    over.set()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert len(strange) > 10
    assert not any(strange)
    held = HeldStep(learner, *batch(30))
    assert not learner._scores(batch(9)[0])[0].any()
    held.finish()


class Noisy(nn.Module):
    """A network that draws random numbers in evaluation mode too."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(functional.dropout(x, 0.5, training=True))
        return logits


@pytest.mark.parametrize("module", [Noisy, lambda: nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 3))])
def test_predictions_of_other_threads_do_not_change_what_a_random_network_learns(
    module: type[nn.Module],
) -> None:
    def learn(looking: int) -> bytes:
        torch.manual_seed(0)
        learner = Learner(module(), DERpp(), memory=20, lr=0.1, replay=4)
        learner.observe(*batch(0))
        over = threading.Event()

        def look() -> None:
            while not over.is_set():
                learner.predict(batch(9)[0])

        threads = [threading.Thread(target=look) for _ in range(looking)]
        for thread in threads:
            thread.start()
        for step in range(1, 40):
            learner.observe(*batch(step))
        over.set()
        for thread in threads:
            thread.join(60)
        return learner._packed()

    assert learn(0) == learn(2)
