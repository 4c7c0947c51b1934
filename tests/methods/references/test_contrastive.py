"""Checks of the references against themselves: supervised contrastive loss, X-DER, SCR."""

import math
from collections.abc import Callable

import torch
from tests.methods.references import scr, supcon, x_der
from tests.methods.references.checks import check_gradient, normal
from torch import Tensor
from torch.nn import functional


def test_supervised_contrastive_loss_of_identical_views_and_its_gradient() -> None:
    same = torch.ones(3, 2, 4, dtype=torch.float64) / 2
    loss = supcon.supervised_contrastive(same, torch.tensor([0, 1, 1]), 0.1)
    assert abs(float(loss) - math.log(5)) < 1e-12
    check_gradient(
        lambda v: supcon.supervised_contrastive(v, torch.tensor([0, 1, 0]), 0.7), normal(3, 2, 3)
    )


def test_supervised_contrastive_loss_with_two_opposite_classes() -> None:
    views = torch.tensor([[[1.0, 0.0]] * 2, [[-1.0, 0.0]] * 2], dtype=torch.float64)
    loss = supcon.supervised_contrastive(views, torch.tensor([0, 1]), 0.5)
    expected = math.log(math.exp(2) + 2 * math.exp(-2)) - 2
    assert abs(float(loss) - expected) < 1e-12


def test_x_der_heads_get_gradient_only_from_their_own_examples() -> None:
    gradient = check_gradient(
        lambda z: x_der.head_cross_entropy(z, torch.tensor([2, 3]), 2, 4), normal(2, 6)
    )
    assert (gradient[:, [0, 1, 4, 5]] == 0).all()
    torch.testing.assert_close(
        x_der.head_cross_entropy(normal(2, 6), torch.tensor([2, 3]), 2, 4),
        functional.cross_entropy(normal(2, 6)[:, 2:4], torch.tensor([0, 1])),
    )


def test_x_der_constraints_are_zero_when_met_and_push_the_heads_apart_otherwise() -> None:
    labels = torch.tensor([2, 3])
    met = torch.tensor([[0.0, 0.0, 9.0, 8.0, 0.0, 0.0]] * 2, dtype=torch.float64)
    variants: tuple[x_der.Variant, ...] = ("publication", "authors")
    for variant in variants:
        assert float(x_der.future_constraint(met, labels, 4, 2, 0.3, variant)) == 0
    mixed = torch.tensor(
        [[0.1, 0.2, 0.5, 2.0, 1.0, 0.4], [0.0, 0.0, 9.0, 8.0, 0.0, 0.1]], dtype=torch.float64
    )
    # True class: 1.0 + 0.3 - 0.5 over two examples; in the code the head's maximum 2.0 suffices.
    assert (
        abs(float(x_der.future_constraint(mixed, labels, 4, 2, 0.3, "publication")) - 0.4) < 1e-12
    )
    assert float(x_der.future_constraint(mixed, labels, 4, 2, 0.3, "authors")) == 0
    value = x_der.future_constraint(mixed, labels, 4, 2, 1.5, "authors")
    assert abs(float(value) - 0.5) < 1e-12  # only the first violates, and it alone is counted

    def constraint(variant: x_der.Variant) -> Callable[[Tensor], Tensor]:
        return lambda z: x_der.future_constraint(z, labels, 4, 2, 1.5, variant)

    for variant in variants:
        check_gradient(constraint(variant), mixed)
    assert float(x_der.past_constraint(mixed, labels, 0, 2, 1.5, "authors")) == 0
    check_gradient(lambda z: x_der.past_constraint(z, labels, 2, 4, 1.5, "publication"), mixed)


def test_x_der_past_constraint_of_the_code_has_no_gradient_through_the_past_maximum() -> None:
    row = normal(1, 6).requires_grad_(True)
    loss = x_der.past_constraint(row, torch.tensor([2]), 2, 4, 1.5, "authors")
    (gradient,) = torch.autograd.grad(loss, row)
    present = torch.softmax(row[:, :4], 1)[0, 2:].max()
    (alone,) = torch.autograd.grad(-present, row)
    torch.testing.assert_close(gradient, alone)


def test_x_der_rewriting_keeps_the_true_class_on_top() -> None:
    stored = torch.tensor([4.0, 1.0, 0.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    now = torch.tensor([9.0, 9.0, 8.0, 2.0, 1.0, 0.0], dtype=torch.float64)
    result = x_der.rewritten(stored, now, 0, 2, 6, 0.75, "authors")
    expected = torch.tensor([4.0, 1.0, 3.0, 0.75, 0.375, 0.0], dtype=torch.float64)
    torch.testing.assert_close(result, expected)
    now[2] = 3.5  # above gamma times the true class, below the true class
    code = x_der.rewritten(stored, now, 0, 2, 6, 0.75, "authors")
    torch.testing.assert_close(code[2:], now[2:])
    text = x_der.rewritten(stored, now, 0, 2, 6, 0.75, "publication")
    torch.testing.assert_close(text[2:], now[2:] * 3 / 3.5)


def test_x_der_future_preparation_counts_every_future_head() -> None:
    labels, views = torch.tensor([0, 1, 0]), normal(3, 2, 6)
    per_head = [
        supcon.supervised_contrastive(
            functional.normalize(views[:, :, s : s + 2], dim=2), labels, 5
        )
        for s in (2, 4)
    ]
    value = x_der.future_preparation(views, labels, 2, 2, 5)
    torch.testing.assert_close(value, (per_head[0] + per_head[1]) / 2)
    assert float(x_der.future_preparation(views, labels, 6, 2, 5)) == 0
    check_gradient(lambda v: x_der.future_preparation(v, labels, 2, 2, 5), views)


def test_x_der_memory_at_task_end() -> None:
    assert x_der.kept_at_task_end([1, 0, 0, 1, 0, 1], 6, 3) == [1, 2, 0, 3]
    assert x_der.added_at_task_end([2, 3, 2, 2, 3, 3], 3, [2, 3], [3]) == [0, 1, 4]
    assert x_der.first_occurrences([5, 3, 5, 3, 1]) == [0, 1, 4]
    assert x_der.is_rewritten(1, 0.999)
    assert not x_der.is_rewritten(2, 0.5)


def test_scr_loss_ignores_the_scale_of_head_outputs_and_the_order_of_views() -> None:
    plain, augmented, labels = normal(4, 3), normal(4, 3, seed=1), torch.tensor([0, 1, 0, 2])
    loss = scr.scr_loss(plain, augmented, labels, 0.5)
    torch.testing.assert_close(loss, scr.scr_loss(3 * augmented, plain / 7, labels, 0.5))
    gradient = check_gradient(lambda p: scr.scr_loss(p, augmented, labels, 0.5), plain)
    torch.testing.assert_close((gradient * plain).sum(1), torch.zeros(4, dtype=torch.float64))


def test_scr_of_one_class_is_at_least_the_logarithm_of_the_other_views() -> None:
    plain, augmented = normal(3, 2), normal(3, 2, seed=1)
    assert float(scr.scr_loss(plain, augmented, torch.zeros(3), 0.07)) >= math.log(5)


def test_scr_nearest_mean_is_the_largest_cosine() -> None:
    stored, labels = normal(9, 4), torch.tensor([0, 1, 2] * 3)
    means = scr.class_means(stored, labels, [0, 1, 2, 5])
    assert means[3] is None
    tests = normal(20, 4, seed=1)
    directions = torch.stack(
        [functional.normalize(stored, dim=1)[labels == c].mean(0) for c in range(3)]
    )
    cosine = functional.normalize(tests, dim=1) @ functional.normalize(directions, dim=1).T
    assert scr.predict(tests, means, [0, 1, 2, 5]) == cosine.argmax(1).tolist()
    raw = scr.class_means(stored, labels, [1], normalised=False)[0]
    assert raw is not None
    torch.testing.assert_close(raw, stored[labels == 1].mean(0))
