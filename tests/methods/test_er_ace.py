"""ER-ACE against its equation: which classes compete, and from when on a class is seen."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.methods.references.er_ace import er_ace_loss
from torch import Tensor
from torch.nn.functional import cross_entropy

from recollect.core.weights import State
from recollect.methods import ERACE

CLASSES = 5


def among(logits: Tensor, y: Tensor, classes: list[int]) -> Tensor:
    """The mean cross-entropy over the outputs of some classes, for one run."""
    labels = torch.tensor([classes.index(label) for label in y.tolist()])
    return cross_entropy(logits[:, classes], labels)


def step_of(now: Tensor, y: Tensor, then: Tensor, past_y: Tensor, seen: Tensor) -> Any:
    past = SimpleNamespace(x=then, y=past_y)
    return SimpleNamespace(
        x=now, y=y, draw=lambda: past, net=lambda *parts: parts, state=State({"seen": seen})
    )


def logits(n: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, n, CLASSES, dtype=torch.float64, generator=generator)


@pytest.mark.parametrize("unseen", [0, 1])
def test_the_batch_competes_among_its_classes_and_the_draw_among_all_that_came(unseen: int) -> None:
    now, then = logits(4, 0), logits(3, 1)
    y, past_y = torch.tensor([[1, 3, 3, 1], [4, 4, 4, 4]]), torch.tensor([[0, 1, 0], [4, 0, 2]])
    seen = torch.tensor([[1, 1, 0, 0, 0], [1, 0, 1, 0, 1]]).bool()
    loss = ERACE(unseen=unseen).loss(step_of(now, y, then, past_y, seen))
    incoming, replayed = ([1, 3], [4]), ([0, 1, 3], [0, 2, 4])
    never = ([2, 4], [1, 3])
    for k in range(2):
        more = never[k] if unseen else []
        expected = among(now[k], y[k], incoming[k] + more)
        expected = expected + among(then[k], past_y[k], replayed[k] + more)
        torch.testing.assert_close(loss[k], expected, rtol=1e-12, atol=1e-12)
    assert seen.tolist() == [[True, True, False, True, False], [True, False, True, False, True]]


def test_a_class_is_seen_from_its_first_batch_on() -> None:
    """Its output competes with replayed examples of older classes in that very step."""
    now, then = logits(1, 0)[:1], logits(2, 1)[:1].requires_grad_()
    step = step_of(now, torch.tensor([[3]]), then, torch.tensor([[0, 0]]), torch.zeros(1, 5).bool())
    step.state["seen"][0, 0] = True
    (gradient,) = torch.autograd.grad(ERACE().loss(step).sum(), then)
    assert (gradient[..., [0, 3]] != 0).all()
    assert (gradient[..., [1, 2, 4]] == 0).all()


def test_without_a_memory_there_is_the_batch_alone() -> None:
    now, y = logits(4, 0), torch.tensor([[1, 3, 3, 1], [4, 0, 4, 4]])
    step = step_of(now, y, now[:, :0], y[:, :0], torch.zeros(2, CLASSES).bool())
    loss = ERACE().loss(step)
    torch.testing.assert_close(loss[0], among(now[0], y[0], [1, 3]))
    torch.testing.assert_close(loss[1], among(now[1], y[1], [0, 4]))


def test_loss_and_gradient_are_those_of_the_reference_over_several_steps() -> None:
    """Derived from the publication without a look at this method."""
    generator = torch.Generator().manual_seed(3)
    seen, known = torch.zeros(2, CLASSES).bool(), [set[int](), set[int]()]
    stored = torch.zeros(2, 0, dtype=torch.int64)
    for step in range(6):
        y = torch.randint(CLASSES, (2, 4), generator=generator) % (step + 1)
        now, then = logits(4, 2 * step).requires_grad_(), logits(stored.shape[1], 2 * step + 1)
        loss = ERACE().loss(step_of(now, y, then.requires_grad_(), stored, seen))
        expected = []
        for k in range(2):
            *parts, known[k] = er_ace_loss(now[k], y[k], then[k], stored[k], known[k])
            expected.append(sum(parts, torch.zeros(())))
        reference = torch.stack(expected)
        torch.testing.assert_close(loss, reference, rtol=0, atol=1e-10)
        inputs = (now, then) if stored.shape[1] else (now,)
        ours, theirs = (torch.autograd.grad(each.sum(), inputs) for each in (loss, reference))
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)
        assert [set(row.nonzero().flatten().tolist()) for row in seen] == known
        stored = torch.cat([stored, y], 1)
