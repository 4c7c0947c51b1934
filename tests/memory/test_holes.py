"""Emptied slots are not drawn, are filled first, and the statistics are those of the docs."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from recollect.memory import (
    Arrivals,
    Balanced,
    Chosen,
    ClassRing,
    Clock,
    Policy,
    Reservoir,
    filled_slots,
)
from recollect.memory.holes import drawn_around, sizes_around, slots_with_holes

CLASSES = 3


class Simulated:
    """One run of a policy on a stream of numbers, with slots that may be emptied."""

    def __init__(self, policy: Policy, seed: int) -> None:
        self.policy, self.clock = policy, Clock()
        self.seeds = torch.tensor([seed])
        self.slots = torch.full((policy.capacity + 1,), -1)
        self.labels = torch.zeros(1, policy.capacity + 1, dtype=torch.int64)
        self.counts = torch.zeros(1, CLASSES, dtype=torch.int64)

    def arrivals(self, y: Tensor) -> Arrivals:
        known = stored = None
        if self.policy.uses_labels:
            known, stored = (y.view(1, 1, -1), self.counts), self.labels[:, :-1]
        return Arrivals(self.seeds, self.clock, 1, len(y), known, stored)

    def learn(self, batch: int) -> None:
        numbers = torch.arange(self.clock.seen, self.clock.seen + batch)
        y = numbers * 7 % 5 % CLASSES
        arrivals = self.arrivals(y)
        planned = slots_with_holes if self.clock.holes else type(self.policy).slots
        slots = planned(self.policy, arrivals)[0, 0]
        self.slots[slots], self.labels[0, slots] = numbers, y
        self.counts.scatter_add_(1, y[None], torch.ones_like(y[None]))
        self.clock = self.clock.after(1, batch).filled(slots)

    def empty(self, slots: list[int]) -> None:
        self.slots[slots], self.labels[0, slots] = -1, 0
        self.clock = replace(self.clock, holes=tuple(sorted({*self.clock.holes, *slots})))

    def stored(self) -> set[int]:
        return {number for number in self.slots[:-1].tolist() if number >= 0}


POLICIES = [Reservoir(12), Chosen(12, 4), Balanced(12), ClassRing(12), ClassRing(12, renews=False)]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("seen", [2, 4, 30])
def test_what_is_drawn_is_stored_and_no_example_twice(policy: Policy, seen: int) -> None:
    run = Simulated(policy, seed=3)
    for _ in range(seen):
        run.learn(3)
    filled = filled_slots(policy, run.arrivals(torch.zeros(1, dtype=torch.int64))).tolist()
    assert filled == [s for s in range(12) if run.slots[s] >= 0]
    run.empty(filled[::2])
    for _ in range(12):
        arrivals = run.arrivals(torch.zeros(1, dtype=torch.int64))
        sizes = sizes_around(policy, run.clock, policy.sizes(run.clock, 2, 5))
        drawn = drawn_around(policy, arrivals, sizes) if run.clock.holes else policy.draws(
            arrivals, sizes
        )  # fmt: skip
        valid = torch.ones_like(drawn.slots) if drawn.valid is None else drawn.valid
        each = torch.stack([drawn.slots, valid.long()])[:, 0, 0]
        for part in torch.split_with_sizes(each, sizes, 1):
            real = part[0, part[1] > 0].tolist()
            assert len(set(real)) == len(real)
            assert all(run.slots[slot] >= 0 for slot in real)
        run.learn(3)
        left = set(run.slots[:12].tolist()) - {-1}
        assert left == run.stored()


@pytest.mark.parametrize("policy", [Reservoir(12), Chosen(12, 4), Balanced(12)], ids=str)
def test_nothing_is_overwritten_before_all_holes_are_filled(policy: Policy) -> None:
    run = Simulated(policy, seed=1)
    for _ in range(10):
        run.learn(4)
    run.empty([1, 5, 6, 7, 11])
    before = run.stored()
    run.learn(4)
    assert run.stored() == before | {40, 41, 42, 43}
    assert run.clock.holes == (11,)
    run.learn(4)
    assert 44 in run.stored()
    assert not run.clock.holes


def test_a_hole_of_a_class_is_filled_by_the_next_of_that_class() -> None:
    run = Simulated(ClassRing(12), seed=1)
    for _ in range(10):
        run.learn(4)
    run.empty([1, 9])
    run.learn(4)
    assert run.labels[0, :12].tolist() == [0] * 4 + [1] * 4 + [2] * 4


def test_a_uniform_draw_stays_uniform_over_what_is_stored() -> None:
    policy, counts, rounds = Reservoir(10), torch.zeros(10), 300
    for step in range(rounds):
        clock = Clock(steps=step, seen=50, holes=(0, 3, 7))
        arrivals = Arrivals(torch.tensor([5]), clock, 1, 1)
        counts[drawn_around(policy, arrivals, (4,)).slots.flatten()] += 1
    assert counts[[0, 3, 7]].tolist() == [0, 0, 0]
    share = 4 / 7
    error = math.sqrt(rounds * share * (1 - share))
    assert (counts[[1, 2, 4, 5, 6, 8, 9]] - rounds * share).abs().max() < 4 * error


def test_a_reservoir_after_forgetting_keeps_what_the_documentation_says() -> None:
    """Capacity k, n seen, f forgotten of which m were stored; then N in all have come."""
    k, n, total, runs = 10, 40, 80, 400
    forgotten = set(range(0, 40, 4))
    f = len(forgotten)
    kept = torch.zeros(total)
    expected = torch.zeros(total)
    for seed in range(runs):
        run = Simulated(Reservoir(k), seed)
        run.learn(n)
        slots = [s for s in range(k) if int(run.slots[s]) in forgotten]
        m = len(slots)
        if slots:
            run.empty(slots)
        run.learn(total - n)
        kept[sorted(run.stored())] += 1
        old, fill, later = (k - m) / (n - f) * (n + m) / total, (n + m) / total, k / total
        rest = [number for number in range(n) if number not in forgotten]
        expected[rest] += old
        expected[n : n + m] += fill
        expected[n + m :] += later
    assert not kept[sorted(forgotten)].any()
    groups = [
        [i for i in range(n) if i not in forgotten],
        [n],
        [n + 1],
        [n + 2],
        list(range(50, 80)),
    ]
    for group in groups:  # fmt: skip
        share = float(expected[group].mean()) / runs
        error = math.sqrt(share * (1 - share) / (runs * len(group)))
        assert abs(float(kept[group].mean()) / runs - share) < 4 * error
