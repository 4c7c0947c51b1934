"""Shares of memory for tasks: rings that fill as examples arrive, and shares filled at the end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.memory import Arrivals, Clock, Memory, TaskRing, TaskShares

SEEDS = torch.tensor([3, 0])
BATCHES = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 7)), min_size=1, max_size=3)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 13), st.lists(BATCHES, min_size=1, max_size=4))
def test_a_ring_keeps_the_last_examples_of_every_task(
    capacity: int, tasks: list[list[tuple[int, int]]]
) -> None:
    policy, clock = TaskRing(capacity), Clock(tasks=len(tasks))
    whole = TaskRing(capacity, whole=True)
    memory = Memory(2, capacity, {"number": ((), torch.int64)})
    by_hand: list[deque[int]] = []
    for batches in tasks:
        by_hand.append(deque(maxlen=capacity // len(tasks)))
        for steps, batch in batches:
            for slots in policy.slots(Arrivals(SEEDS, clock, steps, batch)):
                number = torch.arange(clock.seen, clock.seen + batch)
                memory.write(memory.rows(slots), {"number": number.expand(2, -1)})
                by_hand[-1].extend(number.tolist())
                clock = clock.after(1, batch)
        clock = clock.next_task(clock.seen_now)
        sizes = whole.sizes(clock, draws=1, replay=5)
        assert sizes == tuple(len(ring) for ring in by_hand)
        (rows,) = whole.draws(Arrivals(SEEDS, clock, 1, 4), sizes).slots
        for run in memory.read(memory.rows(rows)).number.tolist():
            parts = torch.tensor(run).split(list(sizes))  # type: ignore[no-untyped-call]
            assert [sorted(part.tolist()) for part in parts] == [sorted(ring) for ring in by_hand]


def test_draws_from_rings_are_uniform_over_earlier_tasks(chance: Callable[..., float]) -> None:
    """Seven kept of a first task, three of a short second one, none of the one going on."""
    policy = TaskRing(capacity=21)
    clock = Clock(steps=4, seen=60, past=(50, 3), counts=(50, 3), tasks=3)
    seeds = torch.arange(5000)
    assert policy.sizes(clock, draws=1, replay=4) == (4,)
    drawn = policy.draws(Arrivals(seeds, clock, 2, 10), (4,)).slots
    assert drawn.shape == (2, 5000, 4)
    counts = drawn.flatten().bincount(minlength=21)
    assert counts[10:].sum() == 0
    assert chance(counts[:10]) > 1e-4
    assert all(len(set(row)) == 4 for row in drawn[0, :50].tolist())


def test_nothing_is_drawn_in_the_first_task() -> None:
    clock = Clock(seen=10, tasks=3)
    for policy in (TaskRing(9), TaskShares(9)):
        assert policy.sizes(clock, draws=2, replay=4) == (0, 0)
        assert policy.draws(Arrivals(SEEDS, clock, 2, 5), (0, 0)).slots.shape == (2, 2, 0)
    assert TaskRing(9, whole=True).sizes(clock, draws=1, replay=4) == ()


def test_shares_are_equal_among_the_tasks_so_far(chance: Callable[..., float]) -> None:
    policy = TaskShares(capacity=10)
    clock = Clock(steps=7, seen=90, past=(60, 20), counts=(30, 20), tasks=5)
    assert policy.stored(clock.counts) == [5, 5]
    assert policy.slots(Arrivals(SEEDS, clock, 3, 8)).shape == (3, 2, 0)
    drawn = policy.draws(Arrivals(torch.arange(5000), clock, 1, 8), (4,)).slots
    assert chance(drawn.flatten().bincount(minlength=10)) > 1e-4
