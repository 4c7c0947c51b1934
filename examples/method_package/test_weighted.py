"""Check that Weighted ER meets the requirements of a method, and test its loss."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch.nn.functional import cross_entropy
from weighted import WeightedER

from recollect import cross_entropy as mean_loss
from recollect.testing import check_method


def test_it_keeps_the_promises_of_a_method() -> None:
    """All requirements that recollect relies on."""
    check_method(WeightedER)


def test_its_loss_is_the_equation() -> None:
    """Compare with the equation, for two runs of five classes and an identity network."""
    now, then = torch.randn(2, 4, 5), torch.randn(2, 3, 5)
    y, past_y = torch.randint(5, (2, 4)), torch.randint(5, (2, 3))
    past = SimpleNamespace(x=then, y=past_y)
    step: Any = SimpleNamespace(
        x=now, y=y, draw=lambda: past, net=lambda *parts: parts, criterion=mean_loss
    )
    expected = [cross_entropy(now[k], y[k]) + 2 * cross_entropy(then[k], past_y[k]) for k in (0, 1)]
    torch.testing.assert_close(WeightedER(weight=2.0).loss(step), torch.stack(expected))
