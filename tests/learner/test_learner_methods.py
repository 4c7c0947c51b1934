"""Learners with every method for streams, and with large batches."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.learner.some_stream import batches

from recollect import ER, MLP, DERpp, InputError, Learner, Method
from recollect.memory import policy
from recollect.methods import GSS, METHODS


@pytest.mark.parametrize("method", [ER(), DERpp(), GSS()], ids=lambda method: method.name)
def test_large_batches(method: Method, sizes_of_results: object) -> None:
    learner = Learner(MLP(4, 3, hidden=(8,)), method, memory=300, classes=[0, 1, 2])
    x, y = next(batches(1, size=10_000))
    learner.observe(x[:400], y[:400])
    if isinstance(method, GSS):  # it compares all examples of a batch with each other
        learner.observe(x[:1000], y[:1000])
        assert learner.seen == 1400
        return
    with sizes_of_results() as sizes:  # type: ignore[operator]
        learner.observe(x, y)
    assert learner.seen == 10_400
    assert max(sizes) < 20 * len(y), "something is quadratic in the batch"
    assert len(learner.predict(x)) == 10_000


def test_both_ways_to_find_who_stays_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    for capacity, size in [(1, 30), (10, 64), (1000, 100), (300, 600)]:
        slot = torch.randint(
            capacity + 1, (3, 2, size), generator=torch.Generator().manual_seed(size)
        )
        monkeypatch.setattr(policy, "MANY", 10_000)
        compared = policy.last_in_slot(slot, capacity)
        monkeypatch.setattr(policy, "MANY", 0)
        assert torch.equal(policy.last_in_slot(slot, capacity), compared)
        for row, found in zip(slot.flatten(0, 1).tolist(), compared.flatten(0, 1), strict=True):
            last = {value: place for place, value in enumerate(row)}
            by_hand = [
                value if last[value] == place else capacity for place, value in enumerate(row)
            ]
            assert found.tolist() == by_hand


def test_one_large_batch_keeps_what_many_small_ones_keep() -> None:
    """Which examples are in memory depends on their numbers in the stream, not on the batches."""
    x, y = next(batches(1, size=2000))
    kept = []
    for size in (2000, 400, 8):
        learner = Learner(MLP(4, 3, hidden=(8,)), ER(), memory=50, lr=1e-9, classes=[0, 1, 2])
        for start in range(0, len(y), size):
            learner.observe(x[start : start + size], y[start : start + size])
        assert learner._now.engine is not None
        kept.append(learner._now.engine.fleet.memory.fields().x)
    assert torch.equal(kept[0], kept[1])
    assert torch.equal(kept[1], kept[2])


FIT = [
    kind
    for kind in METHODS.values()
    if not (kind.needs.boundaries or kind.needs.task_id or kind.needs.all_data)
]


@pytest.mark.parametrize("name", sorted(set(METHODS) - {kind.name for kind in FIT}))
def test_methods_that_need_to_know_of_tasks_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="needs task boundaries, task ids") as refusal:
        Learner(MLP(4, 2), METHODS[name]())
    assert all(kind.title in str(refusal.value) for kind in FIT)


@pytest.mark.parametrize("kind", FIT, ids=lambda kind: kind.name)
def test_every_method_for_streams_learns_and_holds_no_more_later(kind: type[Method]) -> None:
    learner = Learner(MLP(4, 3, hidden=(16,)), kind(), memory=30, lr=0.1, classes=[0, 1, 2])
    held = set()
    for x, y in batches(50):
        learner.observe(x, y)
        held.add(learner.memory_bytes)
    assert len(held) == 1
    x, y = next(batches(1, size=200))
    assert np.mean([told == label for told, label in zip(learner.predict(x), y, strict=True)]) > 0.8
