"""The class-balanced memory: decisions and inclusion against the reference, and shares."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.methods.references import balanced as reference
from torch import Tensor

from recollect.core.random import Purpose, below, bits
from recollect.memory import Arrivals, Balanced, Clock
from recollect.memory.balanced import equal_shares

CLASSES = 4
LABELS = st.lists(st.integers(0, CLASSES - 1), min_size=1, max_size=60)


def followed(
    labels: Tensor, capacity: int, seeds: Tensor, batches: list[int] | None = None
) -> tuple[Tensor, Tensor]:
    """The slot of every example `[K, n]`, and the numbers of those that are stored at the end.

    The stream `[n]` is the same for all runs, and is planned batch by batch (one by one).
    """
    runs, total = len(seeds), len(labels)
    stored, numbers = (labels.new_zeros(runs, capacity + 1) for _ in range(2))
    counts, slots, seen = labels.new_zeros(runs, CLASSES), [], 0
    for batch in batches or [1] * total:
        coming = labels[seen : seen + batch].expand(runs, -1)
        known = coming[None], counts
        arrivals = Arrivals(seeds, Clock(seen=seen), 1, batch, known, stored[:, :-1])
        slots.append(Balanced(capacity).slots(arrivals)[0])
        stored.scatter_(1, slots[-1], coming)
        numbers.scatter_(1, slots[-1], torch.arange(seen, seen + batch).expand(runs, -1))
        counts = counts.scatter_add(1, coming, torch.ones_like(coming))
        seen += batch
    return torch.cat(slots, 1), numbers[:, : min(capacity, total)]


class Watched(list[int]):
    """Labels that say which of them the reference is looking at."""

    now = -1

    def __iter__(self) -> Iterator[int]:
        for number in range(len(self)):
            self.now = number
            yield self[number]


@settings(max_examples=60, deadline=None)
@given(LABELS, st.integers(1, 12), st.integers(0, 99))
def test_every_decision_is_the_references(labels: list[int], capacity: int, seed: int) -> None:
    """Whether an example is stored, and whose it replaces; which of these is asked for below."""
    stream, seeds = Watched(labels), torch.tensor([seed])
    slots = followed(torch.tensor(labels), capacity, seeds)[0][0].tolist()

    def uniform() -> float:
        """The random number by which an example of a full class is stored or not."""
        number = labels[: stream.now + 1].count(labels[stream.now])
        word = bits(seeds, Purpose.SLOT, stream.now)
        return (int(below(word, number)) + 0.5) / number

    def pick(candidates: list[int], _: object) -> int:
        chosen: int = slots[stream.now]
        assert chosen in candidates
        return chosen

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference, "pick", pick)
        written = reference.cbrs(stream, capacity, uniform).written
    assert [capacity if slot is None else slot for slot in written] == slots


@settings(max_examples=40, deadline=None)
@given(LABELS, st.integers(1, 12), st.data())
def test_batches_store_what_single_examples_do(
    labels: list[int], capacity: int, data: st.DataObject
) -> None:
    cuts = data.draw(st.sets(st.integers(1, len(labels) - 1))) if len(labels) > 1 else set()
    bounds = [0, *sorted(cuts), len(labels)]
    batches = [b - a for a, b in pairwise(bounds)]
    seeds, stream = torch.tensor([3, 4]), torch.tensor(labels)
    singly = followed(stream, capacity, seeds)[1]
    assert torch.equal(followed(stream, capacity, seeds, batches)[1], singly)


RARE = torch.tensor([0] * 60 + [1] * 6 + [0, 2] * 20 + [1, 2, 2, 3] * 10 + [3] * 30)


def test_within_a_class_every_example_is_stored_equally_often() -> None:
    """The reference's statement: given the size m of a class of n, each has probability m/n."""
    runs, capacity = 4000, 20
    numbers = followed(RARE, capacity, torch.arange(runs), [len(RARE)])[1]
    share = torch.zeros(runs, len(RARE)).scatter_(1, numbers, 1.0).mean(0)
    for label in range(CLASSES):
        members = RARE.eq(label).nonzero().flatten()
        expected = capacity / CLASSES / len(members)
        assert torch.allclose(share[members].mean(), torch.tensor(expected), atol=1e-6)
        error = (expected * (1 - expected) / runs) ** 0.5
        assert float((share[members] - expected).abs().max()) < 4.5 * error


def test_inclusion_is_that_of_the_reference() -> None:
    """With ties and a class that comes late: mean shares of every example in both simulations."""
    labels, capacity, runs = RARE[:130], 13, 3000
    generator = torch.Generator().manual_seed(0)
    numbers = followed(labels, capacity, torch.arange(runs), [len(labels)])[1]
    ours = torch.zeros(runs, len(labels)).scatter_(1, numbers, 1.0).mean(0)
    theirs = torch.zeros(len(labels))
    draws = iter(torch.rand(600_000, generator=generator).tolist())
    for _ in range(runs // 3):
        memory = reference.cbrs(labels.tolist(), capacity, lambda: next(draws))
        theirs[memory.positions] += 3 / runs
    error = (ours * (1 - ours) * 4 / runs).sqrt() + 1e-3
    assert float(((ours - theirs) / error).abs().max()) < 4.5


def test_a_rare_class_keeps_all_of_its_examples() -> None:
    labels = torch.tensor(([0] * 199 + [3]) * 10)
    numbers = followed(labels, 50, torch.arange(3), [20] * 100)[1]
    for run in numbers:
        assert int((labels[run] == 3).sum()) == 10


def test_a_memory_that_shrinks_takes_from_the_largest_classes() -> None:
    labels = torch.tensor([0] * 7 + [1] * 4 + [2])
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    stays = equal_shares(labels, 7, order)
    assert labels[stays].bincount().tolist() == [3, 3, 1]
    assert len(set(stays.tolist())) == 7
