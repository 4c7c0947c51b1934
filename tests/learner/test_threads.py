"""Predictions while another thread observes: never half a model, and never a long wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from recollect import MLP, DERpp, Learner

FEATURES = 8
PROBE = np.random.default_rng(9).normal(size=(5, FEATURES)).astype(np.float32)


def batch(step: int) -> tuple[np.ndarray, list[str]]:
    """Every 15 steps there is one class more."""
    rng = np.random.default_rng((1, step))
    labels = rng.integers(0, 2 + step // 15, 6)
    return rng.normal(size=(6, FEATURES)).astype(np.float32), [f"c{label}" for label in labels]


def networks() -> list[Any]:
    dropout = [nn.Linear(FEATURES, 16), nn.BatchNorm1d(16), nn.Dropout(0.5), nn.Linear(16, 1)]
    return [
        pytest.param(lambda: MLP(FEATURES, 1, hidden=(16,)), id="MLP"),
        pytest.param(lambda: nn.Sequential(*dropout), id="dropout and batch normalisation"),
    ]


class Watchers:
    """Threads that call a function again and again until `stop`; what they got or raised."""

    def __init__(self, count: int, look: Callable[[], object]) -> None:
        self.answers: list[object] = []
        self.errors: list[BaseException] = []
        self.waits: list[float] = []
        self._look = look
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._watch) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def _watch(self) -> None:
        try:
            while not self._over.is_set():
                began = time.perf_counter()
                answer = self._look()
                self.waits.append(time.perf_counter() - began)
                self.answers.append(answer)
        except BaseException as error:
            self.errors.append(error)

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in self._threads)


@pytest.mark.parametrize("network", networks())
def test_every_answer_is_that_of_one_moment(network: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    learner = Learner(network(), DERpp(0.2, 1.0), memory=30, lr=0.1, replay=6)
    learner.observe(*batch(0))
    moments = {learner.predict_proba(PROBE).tobytes(): 0}
    watchers = Watchers(3, lambda: learner.predict_proba(PROBE).tobytes())
    try:
        for step in range(1, 90):
            learner.observe(*batch(step))
            moments[learner.predict_proba(PROBE).tobytes()] = step
    finally:
        watchers.stop()
    assert watchers.errors == []
    assert len(moments) == 90, "the moments can be told from each other"
    strange = [answer for answer in watchers.answers if answer not in moments]
    assert strange == []
    assert len(set(watchers.answers)) > 10, "the threads saw the learner change"


def test_labels_belong_to_the_moment_of_the_logits() -> None:
    learner = Learner(MLP(FEATURES, 1, hidden=(16,)), DERpp(0.2, 1.0), memory=30, lr=0.1)
    learner.observe(*batch(0))
    watchers = Watchers(2, lambda: tuple(learner.predict(PROBE)))
    try:
        for step in range(1, 90):
            learner.observe(*batch(step))
    finally:
        watchers.stop()
    assert watchers.errors == []
    assert {label for answer in watchers.answers for label in answer} <= set(learner.classes)  # type: ignore[attr-defined]


def test_a_tight_loop_of_observe_does_not_keep_predictions_waiting() -> None:
    """Whoever waits comes next: between two answers of a thread the learner takes few steps."""
    learner = Learner(MLP(FEATURES, 1, hidden=(16,)), DERpp(0.2, 1.0), memory=30)
    learner.observe(*batch(0))
    gaps: list[int] = []

    def look() -> None:
        before = learner.steps
        learner.predict(PROBE)
        gaps.append(learner.steps - before)

    watchers = Watchers(2, look)
    batches = [batch(step) for step in range(300)]
    try:
        for each in batches:
            learner.observe(*each)
    finally:
        watchers.stop()
    assert watchers.errors == []
    assert len(gaps) > 30, "predictions had their turn"
    assert float(np.median(gaps)) <= 3
    assert max(gaps) <= 30


def test_an_error_in_one_thread_leaves_the_learner_free_for_the_others() -> None:
    learner = Learner(MLP(FEATURES, 1, hidden=(16,)), DERpp(0.2, 1.0), memory=30)
    learner.observe(*batch(0))
    refused = threading.Thread(target=lambda: _refused(learner))
    refused.start()
    refused.join(60)
    answered = threading.Thread(target=lambda: learner.predict(PROBE), daemon=True)
    answered.start()
    answered.join(60)
    assert not answered.is_alive()


def _refused(learner: Learner) -> None:
    with pytest.raises(ValueError, match="shape"):
        learner.observe(np.zeros((2, FEATURES + 1), np.float32), ["c0", "c0"])
