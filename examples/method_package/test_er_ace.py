"""ER-ACE keeps the promises of a method, and its loss is the equation of its paper."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from recollect_er_ace import ERACE
from torch.nn.functional import cross_entropy

from recollect import cross_entropy as mean_loss
from recollect.testing import check_method


def test_it_keeps_the_promises_of_a_method() -> None:
    """Every one that recollect relies on."""
    check_method(ERACE)


def test_its_loss_is_the_equation() -> None:
    """For two runs of five classes, and a network that gives back what it reads."""
    logits, then = torch.randn(2, 4, 5), torch.randn(2, 3, 5)
    y, past_y = torch.tensor([[1, 3, 3, 1], [4, 4, 4, 4]]), torch.tensor([[0, 1, 2], [4, 0, 1]])
    past = SimpleNamespace(x=then, y=past_y)
    step: Any = SimpleNamespace(
        x=logits, y=y, draw=lambda: past, net=lambda *parts: parts, criterion=mean_loss
    )
    expected = [
        cross_entropy(logits[0][:, [1, 3]], torch.tensor([0, 1, 1, 0]))
        + cross_entropy(then[0], past_y[0]),
        cross_entropy(then[1], past_y[1]),  # one class alone has nobody to compete with
    ]
    torch.testing.assert_close(ERACE().loss(step), torch.stack(expected))
