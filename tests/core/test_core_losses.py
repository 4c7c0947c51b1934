"""Losses per run: each equals the loss of the run alone."""

from __future__ import annotations

import torch
from torch.nn import functional

from recollect.core.images import as_input
from recollect.core.losses import cross_entropy, squared_distance

GENERATOR = torch.Generator().manual_seed(0)
LOGITS = torch.randn(3, 7, 4, dtype=torch.float64, generator=GENERATOR)
LABELS = torch.randint(0, 4, (3, 7), generator=GENERATOR)
TARGET = torch.randn(3, 7, 4, dtype=torch.float64, generator=GENERATOR)


def test_cross_entropy_is_the_mean_over_a_runs_examples() -> None:
    alone = torch.stack([functional.cross_entropy(LOGITS[k], LABELS[k]) for k in range(3)])
    torch.testing.assert_close(cross_entropy(LOGITS, LABELS), alone)


def test_squared_distance_is_the_mean_over_a_runs_examples_and_classes() -> None:
    alone = torch.stack([functional.mse_loss(LOGITS[k], TARGET[k]) for k in range(3)])
    torch.testing.assert_close(squared_distance(LOGITS, TARGET), alone)
    by_hand = sum((LOGITS[0, b, c] - TARGET[0, b, c]) ** 2 for b in range(7) for c in range(4))
    torch.testing.assert_close(squared_distance(LOGITS, TARGET)[0], by_hand / 28)


def test_a_mean_over_nothing_is_zero_and_so_is_its_gradient() -> None:
    weight = torch.ones(3, 1, 1, dtype=torch.float64, requires_grad=True)
    nothing = LOGITS[:, :0] * weight
    loss = cross_entropy(nothing, LABELS[:, :0]) + squared_distance(nothing, TARGET[:, :0])
    (gradient,) = torch.autograd.grad(loss.sum(), weight)
    assert loss.tolist() == [0.0] * 3
    assert gradient.flatten().tolist() == [0.0] * 3


def test_the_sum_over_runs_gives_every_run_its_own_gradient() -> None:
    logits = LOGITS.clone().requires_grad_()
    loss = cross_entropy(logits, LABELS) + squared_distance(logits, TARGET)
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    for k in range(3):
        alone = LOGITS[k].clone().requires_grad_()
        own = functional.cross_entropy(alone, LABELS[k]) + functional.mse_loss(alone, TARGET[k])
        torch.testing.assert_close(gradient[k], torch.autograd.grad(own, alone)[0])


def test_bytes_become_numbers_up_to_one_and_numbers_stay() -> None:
    image = torch.tensor([[0, 51, 255]], dtype=torch.uint8)
    for dtype in (torch.float32, torch.float64):
        torch.testing.assert_close(as_input(image, dtype), torch.tensor([[0, 0.2, 1]], dtype=dtype))
    assert image.tolist() == [[0, 51, 255]]
    numbers = torch.tensor([-3.0, 300.0])
    assert torch.equal(as_input(numbers), numbers)
    assert as_input(numbers, torch.float64).dtype == torch.float64
    assert torch.equal(as_input(torch.tensor([7])), torch.tensor([7]))
