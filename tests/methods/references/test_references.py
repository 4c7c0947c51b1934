"""Checks of the references against themselves: ER-ACE, balanced reservoirs, CLS-ER."""

import math
from collections import Counter
from collections.abc import Callable
from random import Random

import torch
from tests.methods.references import balanced, cls_er, er_ace
from tests.methods.references.checks import check_gradient, normal
from torch import Tensor
from torch.nn import functional


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
    """Share of 1500 simulated runs after which each stream position is in memory."""
    hits = [0] * length
    for run in range(1500):
        for position in simulate(Random(run)).positions:
            hits[position] += 1
    return [hit / 1500 for hit in hits]


def test_both_policies_are_the_ordinary_reservoir_for_one_class() -> None:
    labels = [7] * 15
    cbrs = frequencies(lambda r: balanced.cbrs(labels, 5, r.random), 15)
    brs = frequencies(lambda r: balanced.balanced_reservoir(labels, 5, r.random), 15)
    for share in cbrs + brs:
        assert abs(share - 5 / 15) < 5 * math.sqrt(2 / 9 / 1500)


def test_cbrs_stores_examples_of_one_class_equally_often_and_balances_classes() -> None:
    labels = [0] * 14 + [1] * 3 + [0, 1] * 4 + [2, 2] + [0] * 3
    counts = Counter(labels)
    sizes: Counter[int] = Counter()

    def simulate(random: Random) -> balanced.Memory:
        memory = balanced.cbrs(labels, 8, random.random)
        sizes.update(labels[p] for p in memory.positions)
        return memory

    shares = frequencies(simulate, len(labels))
    assert sizes[2] == 1500 * 2  # rarer than its share: all of it is stored
    assert sizes[0] == sizes[1] == 1500 * 3
    for position, share in enumerate(shares):
        p = sizes[labels[position]] / 1500 / counts[labels[position]]
        assert abs(share - p) <= 5 * math.sqrt(p * (1 - p) / 1500)


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
    for run in range(1500):
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
        assert abs(hits / 1500 - p) <= 5 * math.sqrt(p * (1 - p) / 1500)


def test_balanced_reservoir_of_mammoth_always_accepts_a_new_class() -> None:
    labels = [0] * 50 + [1] * 50 + [2]
    for run in range(50):
        random = Random(run)
        memory = balanced.balanced_reservoir(labels, 6, random.random, "mammoth")
        assert memory.written[50] is not None
        assert 100 in memory.positions


def test_cls_er_without_consistency_is_experience_replay() -> None:
    logits, labels = normal(5, 4), torch.tensor([0, 1, 2, 3, 1])
    entropy, consistency = cls_er.cls_er_loss(
        logits[:3], labels[:3], logits[3:], labels[3:], normal(2, 4), normal(2, 4, seed=2), 0.0
    )
    torch.testing.assert_close(entropy, functional.cross_entropy(logits, labels))
    assert float(consistency) == 0


def test_cls_er_target_is_the_model_with_the_larger_probability_of_the_label() -> None:
    plastic = torch.tensor([[5.0, 1.0], [0.0, 3.0], [1.0, 1.0]], dtype=torch.float64)
    stable = torch.tensor([[9.0, 8.0], [0.0, 4.0], [2.0, 2.0]], dtype=torch.float64)
    labels = torch.tensor([0, 1, 1])
    target = cls_er.consistency_target(plastic, stable, labels)
    # Larger logit but smaller probability: plastic. Larger probability: stable. Tie: plastic.
    assert torch.equal(target, torch.stack([plastic[0], stable[1], plastic[2]]))


def test_cls_er_gradient_of_the_consistency_term() -> None:
    labels, plastic, stable = torch.tensor([1, 2]), normal(2, 3, seed=1), normal(2, 3, seed=2)
    target = cls_er.consistency_target(plastic, stable, labels)

    def value(own: Tensor) -> Tensor:
        return cls_er.cls_er_loss(
            normal(2, 3), labels, normal(2, 3), labels, plastic, stable, 0.3, own
        )[1]

    own = normal(2, 3, seed=3)
    torch.testing.assert_close(check_gradient(value, own), 0.3 * 2 * (own - target) / 6)


def test_cls_er_average_is_the_running_mean_until_the_decay_reaches_alpha() -> None:
    values = [normal(2, seed=s) for s in range(6)]
    average = [values[0]]
    for step, value in enumerate(values[1:], start=1):
        average = cls_er.averaged(average, [value], step, 0.999, 1.0, 0.5)
    torch.testing.assert_close(average[0], torch.stack(values).mean(0))
    assert [cls_er.decay(s, 0.7) for s in (1, 2, 3, 9)] == [0.5, 1 - 1 / 3, 0.7, 0.7]
    kept = cls_er.averaged(average, [values[0]], 1, 0.999, 0.2, 0.2)
    assert torch.equal(kept[0], average[0])


def test_cls_er_step_moves_each_model_as_stated() -> None:
    def forward(parameters: list[Tensor], inputs: Tensor) -> Tensor:
        return inputs @ parameters[0] + parameters[1]

    start = [normal(3, 4), normal(4, seed=1)]
    plastic, stable = [p + 0.1 for p in start], [p - 0.2 for p in start]
    stream = (normal(2, 3, seed=2), torch.tensor([0, 3]))
    replay = (normal(2, 3, seed=3), torch.tensor([1, 2]))
    loss, working, plastic_now, stable_now = cls_er.cls_er_step(
        forward, start, plastic, stable, stream, replay,
        step=4, weight=0.5, alphas=(0.6, 0.9), rates=(0.9, 0.5), random_numbers=(0.1, 0.7),
        learning_rate=0.1,
    )  # fmt: skip
    target = cls_er.consistency_target(
        forward(plastic, replay[0]), forward(stable, replay[0]), replay[1]
    )
    inputs, labels = torch.cat([stream[0], replay[0]]), torch.cat([stream[1], replay[1]])

    def objective(weights: Tensor) -> Tensor:
        logits = forward([weights, start[1]], inputs)
        penalty = functional.mse_loss(logits[2:], target)
        return functional.cross_entropy(logits, labels) + 0.5 * penalty

    torch.testing.assert_close(loss, objective(start[0]))
    torch.testing.assert_close(working[0], start[0] - 0.1 * check_gradient(objective, start[0]))
    torch.testing.assert_close(plastic_now[0], 0.6 * plastic[0] + 0.4 * working[0])
    assert torch.equal(stable_now[0], stable[0])  # 0.7 is not below the rate 0.5
