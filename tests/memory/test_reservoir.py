"""The reservoir: against examples handled one by one, and as statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from recollect.core.random import Purpose, below, bits
from recollect.memory import Arrivals, Clock, Memory, Reservoir
from recollect.memory.reservoir import without_replacement

SMALL = 1e-4


def one_by_one(seed: int, capacity: int, seen: int) -> list[int]:
    """Which examples (by number) lie in the slots after `seen` of them: Vitter's algorithm R."""
    slots: list[int] = []
    for number in range(seen):
        if len(slots) < capacity:
            slots.append(number)
        else:
            drawn = int(below(bits(torch.tensor(seed), Purpose.SLOT, number), number + 1))
            if drawn < capacity:
                slots[drawn] = number
    return slots


def remembered(seeds: Tensor, capacity: int, batches: list[tuple[int, int]]) -> Iterator[Tensor]:
    """The numbers in the slots `[K, filled]` after every step of batches (steps, size)."""
    policy, seen = Reservoir(capacity), 0
    memory = Memory(len(seeds), capacity, {"number": ((), torch.int64)})
    for steps, size in batches:
        for slots in policy.slots(Arrivals(seeds, Clock(seen=seen), steps, size)):
            number = torch.arange(seen, seen + size).expand(len(seeds), size)
            memory.write(memory.rows(slots), {"number": number})
            seen += size
            yield memory.fields().number[:, : policy.filled(seen)]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 2**62), min_size=1, max_size=4),
    st.integers(1, 12),
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 9)), min_size=1, max_size=4),
)
def test_a_batch_is_stored_as_if_examples_came_one_by_one(
    seeds: list[int], capacity: int, batches: list[tuple[int, int]]
) -> None:
    sizes = [size for steps, size in batches for _ in range(steps)]
    seen = 0
    for size, numbers in zip(
        sizes, remembered(torch.tensor(seeds), capacity, batches), strict=True
    ):
        seen += size
        assert numbers.tolist() == [one_by_one(seed, capacity, seen) for seed in seeds]


@given(st.integers(1, 20), st.integers(0, 50), st.integers(1, 4), st.integers(1, 15))
def test_no_slot_is_written_twice_in_a_step(
    capacity: int, seen: int, steps: int, batch: int
) -> None:
    arrivals = Arrivals(torch.arange(5), Clock(seen=seen), steps, batch)
    slots = Reservoir(capacity).slots(arrivals)
    assert slots.shape == (steps, 5, batch)
    assert 0 <= int(slots.min()) <= int(slots.max()) <= capacity
    for step in slots.flatten(0, 1):
        kept = step[step < capacity]
        assert len(set(kept.tolist())) == len(kept)


def test_every_example_is_kept_with_the_same_probability() -> None:
    runs, capacity, total = 20_000, 7, 40
    *_, numbers = remembered(torch.arange(runs), capacity, [(2, 5), (10, 3)])
    kept = numbers.flatten().bincount(minlength=total)
    assert int(kept.sum()) == runs * capacity
    share = capacity / total
    # One run keeps `capacity` different examples, so counts vary less than Poisson ones.
    spread = (kept - runs * share).square().sum() / (runs * share * (1 - share))
    statistic = float(spread) * (total - 1) / total
    assert (
        float(torch.special.gammaincc(torch.tensor((total - 1) / 2), torch.tensor(statistic / 2)))
        > SMALL
    )


def test_every_pair_of_examples_is_kept_with_the_same_probability(
    chance: Callable[..., float],
) -> None:
    """With two slots, so that a run holds one pair."""
    runs, total = 60_000, 12
    *_, numbers = remembered(torch.arange(runs), 2, [(3, 4)])
    low, high = numbers.min(1).values, numbers.max(1).values
    pairs = (low * total + high).bincount(minlength=total**2)
    possible = torch.ones(total, total).triu(1)
    assert chance(pairs, possible * runs / possible.sum()) > SMALL


def test_the_slot_says_nothing_about_a_late_example(chance: Callable[..., float]) -> None:
    *_, numbers = remembered(torch.arange(20_000), 5, [(8, 5)])
    table = torch.stack([column.bincount(minlength=40) for column in numbers.t()])
    assert chance(table[:, 5:]) > SMALL


def draws(runs: int, filled: list[int], size: int, count: int = 2, step: int = 0) -> Tensor:
    arrivals = Arrivals(torch.arange(runs), Clock(steps=step), steps=len(filled), batch=1)
    drawn = without_replacement(arrivals, torch.tensor(filled), (size,) * count)
    assert drawn.valid is None
    return drawn.slots.view(len(filled), runs, count, size)


def test_a_draw_is_uniform(chance: Callable[..., float]) -> None:
    drawn = draws(20_000, [20, 7], 5)
    assert drawn.shape == (2, 20_000, 2, 5)
    for step, filled in enumerate([20, 7]):
        for draw in range(2):
            for place in range(5):
                counts = drawn[step, :, draw, place].bincount()
                assert len(counts) == filled
                assert chance(counts) > SMALL / 10


def test_all_sets_that_can_be_drawn_are_equally_likely(chance: Callable[..., float]) -> None:
    drawn = (2 ** draws(30_000, [6], 3)[0, :, 1]).sum(1).bincount(minlength=64)
    possible = torch.tensor([float(code.bit_count() == 3) for code in range(64)])
    assert chance(drawn, possible * 30_000 / possible.sum()) > SMALL


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(1, 300), min_size=1, max_size=4), st.integers(1, 40), st.integers(0, 10**9)
)
def test_a_draw_is_without_replacement_over_what_is_filled(
    filled: list[int], size: int, step: int
) -> None:
    size = min(size, *filled)
    drawn = draws(3, filled, size, step=step)
    for n, rows in zip(filled, drawn.flatten(1, 2), strict=True):
        assert 0 <= int(rows.min()) <= int(rows.max()) < n
        assert all(len(set(row)) == size for row in rows.tolist())
    for later, n in enumerate(filled):
        assert torch.equal(draws(3, [n], size, step=step + later)[0], drawn[later])


@pytest.mark.parametrize("pair", ["two draws", "two steps", "two runs", "draw and slot"])
def test_draws_are_independent(pair: str, chance: Callable[..., float]) -> None:
    drawn = draws(40_001, [16, 16], 1)[..., 0]
    first, second = {
        "two draws": (drawn[0, 1:, 0], drawn[0, 1:, 1]),
        "two steps": (drawn[0, 1:, 0], drawn[1, 1:, 0]),
        "two runs": (drawn[0, 1:, 0], drawn[0, :-1, 0]),
        "draw and slot": (
            drawn[1, 1:, 0],
            below(bits(torch.arange(1, 40_001), Purpose.SLOT, 1), 16),
        ),
    }[pair]
    assert chance((first * 16 + second).bincount(minlength=256)) > SMALL


def test_a_draw_from_an_empty_memory_has_no_examples() -> None:
    assert draws(3, [0], 0).shape == (1, 3, 2, 0)


def test_the_cost_does_not_depend_on_the_capacity(
    sizes_of_results: Callable[[], AbstractContextManager[list[int]]],
) -> None:
    """No operation makes a larger tensor for a memory a thousand times as large."""
    largest = []
    for capacity in (100, 100_000):
        policy, seeds = Reservoir(capacity), torch.arange(2)
        memory = Memory(2, capacity, {"y": ((), torch.int64), "x": ((3,), torch.uint8)})
        values = {"y": torch.ones(2, 10).long(), "x": torch.ones(2, 10, 3, dtype=torch.uint8)}
        with sizes_of_results() as sizes:
            arrivals = Arrivals(seeds, Clock(seen=capacity), 1, 10)
            (slots,) = policy.slots(arrivals)
            drawn = policy.draws(arrivals, (10, 10)).slots
            memory.read(memory.rows(drawn)[0])
            memory.write(memory.rows(slots), values)
        largest.append(max(sizes))
    assert largest[0] == largest[1] == 2 * 10 * 10


def test_its_examples_and_replays_keep_their_meaning_for_ever() -> None:
    """If this fails, every published number and every checkpoint changes: do not just repin it."""
    policy, seeds = Reservoir(5), torch.tensor([0, 1])
    assert policy.slots(Arrivals(seeds, Clock(seen=20), 2, 6)).tolist() == [
        [[5, 0, 5, 5, 5, 5], [5, 5, 5, 0, 5, 5]],
        [[3, 5, 5, 5, 5, 5], [2, 4, 5, 3, 5, 5]],
    ]
    arrivals = Arrivals(seeds, Clock(steps=9), 2, 1)
    drawn = without_replacement(arrivals, torch.tensor([3, 5]), (3, 3)).slots.view(2, 2, 2, 3)
    assert drawn.tolist() == [
        [[[0, 1, 2], [1, 0, 2]], [[2, 1, 0], [1, 2, 0]]],
        [[[4, 3, 2], [4, 1, 3]], [[4, 0, 1], [0, 1, 2]]],
    ]


def test_a_stream_may_be_longer_than_two_billion_examples() -> None:
    late = Clock(seen=2**33)
    slots = Reservoir(5).slots(Arrivals(torch.arange(50), late, steps=1, batch=10))
    assert bool((slots == 5).all())
    kept = Reservoir(2**32).slots(Arrivals(torch.arange(2000), late, steps=1, batch=1)).flatten()
    assert bool((kept >= 0).all())
    assert 0.45 < float((kept < 2**32).double().mean()) < 0.55
