"""The losses of values, several labels and weighted examples, against torch's own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from recollect.core.losses import CROSS_ENTROPY, Criterion
from recollect.core.targets import (
    BINARY_CROSS_ENTROPY,
    CLASS,
    LABELS,
    REGRESSION,
    SQUARED_ERROR,
    Target,
    Weighted,
    with_weights,
)
from recollect.errors import InputError

OUTPUTS = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
VALUES = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
HAS = (VALUES > 0).to(torch.int8)
NUMBERS = torch.tensor([[0, 1, 2, 1, 0], [2, 2, 1, 0, 1]])
WEIGHTS = torch.tensor([[1.0, 2.0, 0.0, 0.5, 3.0], [1.0, 1.0, 1.0, 1.0, 1.0]])
CASES: list[tuple[Criterion, Tensor]] = [
    (SQUARED_ERROR, VALUES),
    (BINARY_CROSS_ENTROPY, HAS),
    (Weighted(SQUARED_ERROR), with_weights(VALUES, WEIGHTS)),
    (Weighted(BINARY_CROSS_ENTROPY), with_weights(HAS, WEIGHTS)),
    (Weighted(CROSS_ENTROPY), with_weights(NUMBERS, WEIGHTS)),
]


def test_the_squared_error_is_that_of_torch() -> None:
    expected = torch.stack(
        [functional.mse_loss(o, v) for o, v in zip(OUTPUTS, VALUES, strict=True)]
    )
    assert torch.allclose(SQUARED_ERROR(OUTPUTS, VALUES), expected)


def test_several_labels_have_the_sum_of_binary_cross_entropies() -> None:
    each = functional.binary_cross_entropy_with_logits(OUTPUTS, HAS.double(), reduction="none")
    assert torch.allclose(BINARY_CROSS_ENTROPY(OUTPUTS, HAS), each.sum(2).mean(1))
    unknown = HAS.clone()
    unknown[:, :, 1] = -1
    known = each[:, :, [0, 2]].sum(2).mean(1)
    assert torch.allclose(BINARY_CROSS_ENTROPY(OUTPUTS, unknown), known)
    assert bool((BINARY_CROSS_ENTROPY.error(OUTPUTS, unknown)[:, :, 1] == 0).all())


def test_a_weight_multiplies_the_loss_and_the_mean_is_over_examples() -> None:
    each = functional.cross_entropy(OUTPUTS.flatten(0, 1), NUMBERS.flatten(), reduction="none")
    expected = (each.view(2, 5) * WEIGHTS).mean(1)
    found = Weighted(CROSS_ENTROPY)(OUTPUTS, with_weights(NUMBERS, WEIGHTS))
    assert torch.allclose(found, expected)
    alone = Weighted(CROSS_ENTROPY)(OUTPUTS[:, :1], with_weights(NUMBERS, 2 * WEIGHTS)[:, :1])
    assert torch.allclose(alone, 2 * each.view(2, 5)[:, 0] * WEIGHTS[:, 0])


@pytest.mark.parametrize(("criterion", "y"), CASES)
def test_errors_are_the_gradients_of_each_loss(criterion: Criterion, y: Tensor) -> None:
    outputs = OUTPUTS.clone().requires_grad_()
    (expected,) = torch.autograd.grad(criterion.each(outputs, y).sum(), outputs)
    assert torch.allclose(criterion.error(OUTPUTS, y), expected, atol=1e-7)
    assert torch.allclose(criterion(OUTPUTS, y), criterion.each(OUTPUTS, y).mean(1))
    empty = criterion(OUTPUTS[:, :0], y[:, :0])
    assert empty.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("criterion", [SQUARED_ERROR, BINARY_CROSS_ENTROPY])
def test_expected_errors_are_those_of_drawn_answers(criterion: Criterion) -> None:
    """The mean outer product of log-likelihood gradients, over answers drawn from the model."""
    errors = torch.stack(list(criterion.expected_errors(OUTPUTS)))
    expected = torch.einsum("akni,aknj->knij", errors, errors)
    generator = torch.Generator().manual_seed(2)
    many = OUTPUTS.expand(20_000, *OUTPUTS.shape)
    if criterion is SQUARED_ERROR:
        found = torch.randn(many.shape, generator=generator, dtype=torch.float64)
    else:
        found = torch.bernoulli(many.sigmoid(), generator=generator) - many.sigmoid()
    drawn = torch.einsum("akni,aknj->knij", found, found) / len(many)
    assert torch.allclose(drawn, expected, atol=0.05)
    draws = torch.rand(2, 5, 4000, generator=generator)
    some = torch.stack(list(criterion.expected_errors(OUTPUTS, None, draws)))
    assert torch.allclose(torch.einsum("akni,akni->kni", some, some),
                          expected.diagonal(dim1=2, dim2=3), atol=0.1)  # fmt: skip


@pytest.mark.parametrize(
    ("target", "y", "said"),
    [
        (CLASS, torch.tensor([[0, 3]]), r"labels must be in 0..2"),
        (REGRESSION, torch.zeros(1, 2, 2), r"must have the shape \[K, n, 3\] and a float"),
        (REGRESSION, torch.full((1, 2, 3), float("nan")), "must be finite"),
        (LABELS, torch.full((1, 2, 3), 2), "1 \\(present\\), 0"),
        (CLASS.with_weights(), torch.tensor([[[-1.0, 0.0]]]), "weights must be finite"),
        (CLASS.with_weights(), torch.tensor([[[float("nan"), 0.0]]]), "weights must be finite"),
        (CLASS.with_weights(), torch.tensor([[[1.0, 7.0]]]), r"labels must be in 0..2"),
    ],
)
def test_targets_of_another_kind_are_refused(target: Target, y: Tensor, said: str) -> None:
    with pytest.raises(InputError, match=said):
        target.check(y, 3)
