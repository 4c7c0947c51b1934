"""Shares of memory for classes: where examples go, and what is drawn of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from recollect.memory import Arrivals, ClassRing, Clock, Memory

SEEDS = torch.tensor([3, 0])
CLASSES = 3
LABEL = st.integers(0, CLASSES - 1)
STRETCHES = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 6)), min_size=1, max_size=4)


def arriving(
    labels: Tensor, before: Tensor, seeds: Tensor = SEEDS, clock: Clock | None = None
) -> Arrivals:
    steps, _, batch = labels.shape
    return Arrivals(seeds, clock or Clock(), steps, batch, (labels, before))


def counted(labels: Tensor) -> Tensor:
    """How many of every class a stretch `[steps, K, batch]` brings to each run."""
    return torch.stack([run.flatten().bincount(minlength=CLASSES) for run in labels.unbind(1)])


@settings(max_examples=80, deadline=None)
@given(st.integers(CLASSES, 11), STRETCHES, st.data())
def test_it_keeps_the_last_examples_of_every_class(
    capacity: int, stretches: list[tuple[int, int]], data: st.DataObject
) -> None:
    policy, before, number = ClassRing(capacity), torch.zeros(2, CLASSES, dtype=torch.int64), 1
    first = ClassRing(capacity, renews=False)
    share = capacity // CLASSES
    memory = Memory(2, capacity, {"number": ((), torch.int64)})
    rings = [[deque[int](maxlen=share) for _ in range(CLASSES)] for _ in range(2)]
    for steps, batch in stretches:
        size = steps * 2 * batch
        some = data.draw(st.lists(LABEL, min_size=size, max_size=size))
        labels = torch.tensor(some).view(steps, 2, batch)
        seen = before.clone()
        coming = arriving(labels, before)
        for slots, only, y in zip(policy.slots(coming), first.slots(coming), labels, strict=True):
            numbers = torch.arange(number, number + batch)
            memory.write(memory.rows(slots), {"number": numbers.expand(2, -1)})
            for run in range(2):
                for place, label in enumerate(y[run].tolist()):
                    rings[run][label].append(number + place)
                    n = int(seen[run, label])
                    assert only[run, place] == (label * share + n if n < share else capacity)
                    seen[run, label] += 1
            number += batch
        before = before + counted(labels)
        assert torch.equal(before, seen)
        assert policy.stored(before).tolist() == [[len(ring) for ring in run] for run in rings]
        for run, kept in enumerate(memory.fields().number.tolist()):
            for label, ring in enumerate(rings[run]):
                mine = kept[label * share : (label + 1) * share]
                assert sorted(mine) == [0] * (share - len(ring)) + sorted(ring)


@settings(max_examples=80, deadline=None)
@given(st.integers(CLASSES, 11), st.integers(1, 6), st.integers(1, 5), st.data())
def test_a_draw_has_what_is_kept_each_once_and_then_again_without_counting(
    capacity: int, steps: int, batch: int, data: st.DataObject
) -> None:
    policy, share = ClassRing(capacity), capacity // CLASSES
    size = steps * 2 * batch
    labels = torch.tensor(data.draw(st.lists(LABEL, min_size=size, max_size=size)))
    labels = labels.view(steps, 2, batch)
    before = torch.tensor([[1, 0, 0], [0, 4, 1]])
    clock = Clock(steps=5, seen=5)
    sizes = policy.sizes(clock, draws=2, replay=4)
    assert sizes == (min(4, capacity),) * 2
    drawn, valid = policy.draws(arriving(labels, before, clock=clock), sizes)
    assert valid is not None
    assert drawn.shape == valid.shape == (steps, 2, sum(sizes))
    for step in range(steps):
        kept = policy.stored(before + counted(labels[:step]))
        for run in range(2):
            filled = {c * share + p for c in range(CLASSES) for p in range(int(kept[run, c]))}
            parts = (t[step, run].view(2, -1) for t in (drawn, valid))
            for slots, real in zip(*parts, strict=True):
                number = min(sizes[0], len(filled))
                assert real.tolist() == [place < number for place in range(sizes[0])]
                assert set(slots.tolist()) <= filled
                assert len(set(slots[real].tolist())) == number


def test_draws_are_uniform_over_what_is_kept(chance: Callable[..., float]) -> None:
    """Three of the first class, none of the second, one of the third; two are drawn."""
    policy, seeds = ClassRing(capacity=9), torch.arange(5000)
    labels = torch.zeros(2, 5000, 4, dtype=torch.int64)
    before = torch.tensor([[8, 0, 1]]).expand(5000, -1)
    coming = arriving(labels, before, seeds, Clock(steps=7, seen=9))
    drawn, valid = policy.draws(coming, (2, 2))
    assert valid is not None
    assert bool(valid.all())
    for part in (drawn[0, :, :2], drawn[1, :, 2:], drawn[0, :, 1]):
        times = part.flatten().bincount(minlength=9)
        assert times.nonzero().flatten().tolist() == [0, 1, 2, 6]
        assert chance(times[[0, 1, 2, 6]]) > 1e-4
    pairs = drawn[0, :, :2].sort(1).values @ torch.tensor([9, 1])
    assert chance(pairs.bincount()[pairs.unique()]) > 1e-4  # type: ignore[no-untyped-call]
    assert len(pairs.unique()) == 6  # type: ignore[no-untyped-call]
    assert not torch.equal(drawn[0, :, :2], drawn[0, :, 2:])


def test_a_run_is_planned_alike_in_any_company_and_however_the_stream_is_cut() -> None:
    policy, clock = ClassRing(capacity=7), Clock(steps=4, seen=20)
    labels = torch.randint(0, CLASSES, (6, 2, 5), generator=torch.manual_seed(0))
    before = torch.tensor([[20, 0, 0], [1, 18, 1]])
    whole = arriving(labels, before, clock=clock)
    slots, (drawn, valid) = policy.slots(whole), policy.draws(whole, (5,))
    one = arriving(labels[:, 1:], before[1:], SEEDS[1:], clock)
    alone = policy.draws(one, (5,))
    assert torch.equal(policy.slots(one), slots[:, 1:])
    assert torch.equal(alone.slots, drawn[:, 1:])
    assert valid is not None
    assert alone.valid is not None
    assert torch.equal(alone.valid, valid[:, 1:])
    later = arriving(labels[2:], before + counted(labels[:2]), clock=clock.after(2, 5))
    assert torch.equal(policy.slots(later), slots[2:])
    assert torch.equal(policy.draws(later, (5,)).slots, drawn[2:])


def test_sizes_grow_with_the_clock_and_not_with_the_labels() -> None:
    policy = ClassRing(capacity=7)
    assert policy.sizes(Clock(), draws=1, replay=5) == (0,)
    assert policy.sizes(Clock(seen=3), draws=2, replay=5) == (3, 3)
    assert policy.sizes(Clock(seen=30), draws=1, replay=50) == (7,)
    assert not policy.steady(Clock(seen=4), replay=5)
    assert policy.steady(Clock(seen=5), replay=5)
    assert policy.steady(Clock(seen=7), replay=50)
    nothing = torch.zeros(2, CLASSES, dtype=torch.int64)
    labels = torch.zeros(1, 2, 4, dtype=torch.int64)
    drawn, valid = policy.draws(arriving(labels, nothing), (0,))
    assert valid is not None
    assert drawn.shape == valid.shape == (1, 2, 0)
