"""A class-balanced memory behind a stream: classes arrive, memories shrink, files continue."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.learner.some_stream import engine_of, network
from tests.learner.test_growth import growing, some
from torch import nn

from recollect import DER, ER, DERpp, InputError, Learner
from recollect.methods import ERACE, Method

METHODS: list[Method] = [
    ER(balanced=True), DER(balanced=True), DERpp(balanced=True), ERACE(balanced=True),
]  # fmt: skip


def stored(learner: Learner) -> list[int]:
    """How many examples of every class are stored."""
    labels = engine_of(learner).fleet.memory.fields().y[0]
    return labels[: learner.seen].bincount(minlength=len(learner.classes)).tolist()


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_classes_that_arrive_get_an_equal_share(method: Method) -> None:
    learner = growing(nn.Linear(16, 1), method, memory=24, lr=0.01)
    for number, label in enumerate("abcd"):
        for step in range(10):
            learner.observe(some(5, 10 * number + step), [label] * 5)
        assert sum(stored(learner)) == 24
        assert max(stored(learner)) - min(stored(learner)) <= 1
    assert stored(learner) == [6, 6, 6, 6]


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_growth_step_by_step_stores_what_a_large_head_does(method: Method) -> None:
    """How many outputs wait changes no slot."""
    labels = np.random.default_rng(3).zipf(1.6, size=(60, 4)).clip(max=6)
    learners = [
        growing(nn.Linear(16, 1), method, memory=17, lr=1e-3, spare=spare) for spare in (0, 20)
    ]
    for learner in learners:
        for step, row in enumerate(labels.tolist()):
            learner.observe(some(4, step), row)
    one, other = (engine_of(learner).fleet.memory.fields() for learner in learners)
    assert torch.equal(one.y, other.y)
    assert torch.equal(one.x, other.x)


def test_a_rare_label_stays_in_memory() -> None:
    learner = Learner(nn.Linear(16, 1), DERpp(balanced=True), memory=50, lr=0.01)
    for step in range(200):
        learner.observe(some(10, step), ["rare" if step == 40 else "usual"] * 3 + ["usual"] * 7)
    assert stored(learner) == [47, 3]


def test_a_memory_in_bytes_that_shrinks_takes_from_the_largest_classes() -> None:
    """Rows get longer with every class; a class below the others loses nothing."""
    learner = growing(nn.Linear(16, 1), DERpp(balanced=True), memory="2 kB", lr=1e-3)
    for step in range(30):
        learner.observe(some(5, step), ["a", "a", "b", "a", "rare" if step == 3 else "b"])
    before, capacity = stored(learner), engine_of(learner).fleet.memory.capacity
    for number in range(6):
        learner.observe(some(1, 99 + number), [f"new {number}"])
    assert engine_of(learner).fleet.memory.capacity < capacity
    assert before[2] == stored(learner)[2] == 1
    assert abs(stored(learner)[0] - stored(learner)[1]) <= 1
    for step in range(30):  # and a class that has room goes on growing
        learner.observe(some(1, 200 + step), ["rare"])
    assert stored(learner)[2] >= max(stored(learner)) - 1


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_a_saved_learner_continues_exactly(method: Method, tmp_path: Path) -> None:
    labels = np.random.default_rng(0).integers(0, 4, size=(40, 3)).tolist()
    whole, first = (growing(network(), method, memory=13, lr=0.05) for _ in range(2))
    for step, row in enumerate(labels):
        whole.observe(some(3, step)[:, :4], row)
    for step, row in enumerate(labels[:17]):
        first.observe(some(3, step)[:, :4], row)
    first.save(tmp_path / "learner")
    second = Learner.load(tmp_path / "learner", network())
    assert second.method == method
    for step, row in enumerate(labels[17:], start=17):
        second.observe(some(3, step)[:, :4], row)
    assert second._packed() == whole._packed()


def test_a_step_that_is_taken_back_leaves_the_shares_alone() -> None:
    learner = growing(network(), ER(balanced=True), memory=8, lr=0.1)
    for step in range(6):
        learner.observe(some(3, step)[:, :4], ["a", "b", "a"])
    before = learner._packed()
    with pytest.raises(InputError):
        learner.observe(some(2, 9)[:, :4] * float("nan"), ["c", "a"], on_outlier="raise")
    assert learner._packed() == before


def test_a_file_says_balanced_only_where_it_is() -> None:
    learners = [growing(network(), method, memory=8) for method in (ER(), ER(balanced=True))]
    for learner in learners:
        learner.observe(some(3)[:, :4], ["a", "b", "a"])
    assert [b"balanced" in learner._packed() for learner in learners] == [False, True]
