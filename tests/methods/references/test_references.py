"""Checks of the reference implementations against themselves and known special cases."""

import math
from collections import Counter
from collections.abc import Callable
from random import Random

import torch
from tests.methods.references import balanced, er_ace
from torch import Tensor
from torch.nn import functional


def normal(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def check_gradient(value: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    """The gradient of `value` at `at`, after comparison with central differences."""
    leaf = at.clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(value(leaf), leaf)
    step = 1e-6
    flat = at.flatten()
    for i in range(flat.numel()):
        up, down = flat.clone(), flat.clone()
        up[i] += step
        down[i] -= step
        with torch.no_grad():
            slope = (value(up.view_as(at)) - value(down.view_as(at))) / (2 * step)
        assert abs(float(slope) - float(gradient.flatten()[i])) < 1e-7
    return gradient


def test_er_ace_is_replay_with_all_classes_when_every_class_is_in_the_batch() -> None:
    logits, labels = normal(4, 3), torch.tensor([0, 1, 2, 1])
    replayed, replayed_labels = normal(2, 3, seed=1), torch.tensor([2, 0])
    for variant in ("publication", "authors"):
        stream, replay, seen = er_ace.er_ace_loss(
            logits, labels, replayed, replayed_labels, set(), variant
        )
        torch.testing.assert_close(stream, functional.cross_entropy(logits, labels))
        torch.testing.assert_close(replay, functional.cross_entropy(replayed, replayed_labels))
        assert seen == {0, 1, 2}


def test_er_ace_old_classes_get_no_gradient_from_incoming_examples() -> None:
    logits, labels = normal(3, 6), torch.tensor([2, 3, 3])

    def stream(variant: er_ace.Variant, seen: set[int]) -> Callable[[Tensor], Tensor]:
        return lambda z: er_ace.er_ace_loss(z, labels, None, None, seen, variant)[0]

    gradient = check_gradient(stream("publication", {0, 1}), logits)
    assert (gradient[:, [0, 1, 4, 5]] == 0).all()
    assert (gradient[:, [2, 3]] != 0).all()
    gradient = check_gradient(stream("authors", {0, 1}), logits)
    assert (gradient[:, [0, 1]] == 0).all()
    assert (gradient[:, [2, 3, 4, 5]] != 0).all()
    # The largest class seen competes in the code although it is old and absent from the batch.
    gradient = check_gradient(stream("authors", {0, 4}), logits)
    assert (gradient[:, [0, 1]] == 0).all()
    assert (gradient[:, [4, 5]] != 0).all()


def test_er_ace_replay_leaves_out_classes_never_seen_only_in_the_publication() -> None:
    logits, labels = normal(2, 4), torch.tensor([1, 1])

    def replay(variant: er_ace.Variant) -> Callable[[Tensor], Tensor]:
        return lambda z: er_ace.er_ace_loss(logits, labels, z, labels, {0}, variant)[1]

    gradient = check_gradient(replay("publication"), normal(2, 4, seed=1))
    assert (gradient[:, [2, 3]] == 0).all()
    gradient = check_gradient(replay("authors"), normal(2, 4, seed=1))
    assert (gradient != 0).all()


def test_er_ace_authors_mask_by_a_large_negative_number_is_removal() -> None:
    logits, labels = normal(3, 6), torch.tensor([2, 3, 3])
    masked = logits.clone()
    masked[:, [0, 1]] = -1e9
    ours = er_ace.er_ace_loss(logits, labels, None, None, {0, 1}, "authors")[0]
    torch.testing.assert_close(ours, functional.cross_entropy(masked, labels), rtol=0, atol=1e-12)


def frequencies(simulate: Callable[[Random], balanced.Memory], length: int) -> list[float]:
    """Share of 4000 simulated runs after which each stream position is in memory."""
    hits = [0] * length
    for run in range(4000):
        for position in simulate(Random(run)).positions:
            hits[position] += 1
    return [hit / 4000 for hit in hits]


def test_both_policies_are_the_ordinary_reservoir_for_one_class() -> None:
    labels = [7] * 15
    cbrs = frequencies(lambda r: balanced.cbrs(labels, 5, r.random), 15)
    brs = frequencies(lambda r: balanced.balanced_reservoir(labels, 5, r.random), 15)
    for share in cbrs + brs:
        assert abs(share - 5 / 15) < 5 * math.sqrt(2 / 9 / 4000)


def test_cbrs_stores_examples_of_one_class_equally_often_and_balances_classes() -> None:
    labels = [0] * 14 + [1] * 3 + [0, 1] * 4 + [2, 2] + [0] * 3
    counts = Counter(labels)
    sizes: Counter[int] = Counter()

    def simulate(random: Random) -> balanced.Memory:
        memory = balanced.cbrs(labels, 8, random.random)
        sizes.update(labels[p] for p in memory.positions)
        return memory

    shares = frequencies(simulate, len(labels))
    assert sizes[2] == 4000 * 2  # rarer than its share: all of it is stored
    assert sizes[0] == sizes[1] == 4000 * 3
    for position, share in enumerate(shares):
        p = sizes[labels[position]] / 4000 / counts[labels[position]]
        assert abs(share - p) <= 5 * math.sqrt(p * (1 - p) / 4000)


def test_cbrs_full_by_the_letter_stops_the_first_class_from_growing() -> None:
    labels = [0] + [1] * 20 + [0] * 20
    random = Random(0)
    literal = balanced.cbrs(labels, 6, random.random, full_while_filling=True)
    assert sum(labels[p] == 0 for p in literal.positions) == 1
    filled = balanced.cbrs(labels, 6, random.random)
    assert sum(labels[p] == 0 for p in filled.positions) == 3


def test_balanced_reservoir_accepts_like_a_reservoir_and_evicts_from_the_largest_class() -> None:
    labels = [0] * 12 + [1] * 6 + [2] * 2
    size, accepted = 6, [0] * len(labels)
    for run in range(4000):
        random = Random(run)
        memory = balanced.balanced_reservoir(labels, size, random.random)
        positions = list(range(size))
        for position, slot in enumerate(memory.written):
            if slot is None:
                continue
            accepted[position] += 1
            if position >= size:
                stored = [labels[p] for p in positions]
                assert stored[slot] in balanced.largest_classes(stored)
            positions[slot] = position
        assert positions == memory.positions
    for position, hits in enumerate(accepted):
        p = min(1.0, size / (position + 1))
        assert abs(hits / 4000 - p) <= 5 * math.sqrt(p * (1 - p) / 4000)


def test_balanced_reservoir_of_mammoth_always_accepts_a_new_class() -> None:
    labels = [0] * 50 + [1] * 50 + [2]
    for run in range(50):
        random = Random(run)
        memory = balanced.balanced_reservoir(labels, 6, random.random, "mammoth")
        assert memory.written[50] is not None
        assert 100 in memory.positions
