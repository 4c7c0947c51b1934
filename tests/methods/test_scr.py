"""SCR against its reference: the loss, the means and the distances; and its projection."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.methods.references.scr import class_means, distances, scr_loss
from torch import Tensor, nn

from recollect import MLP, Fleet, InputError, Learner, ResNet18
from recollect.core.modules import Features, Head
from recollect.memory import Stored
from recollect.methods import SCR
from recollect.methods.closed_form import UNSEEN
from recollect.methods.scr import projecting

RUNS, CLASSES = 2, 4


def normal(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


@pytest.mark.parametrize("replayed", [0, 3])
def test_the_loss_is_that_of_the_reference(replayed: int) -> None:
    """The network gives back what it reads, so that examples are projections."""
    views = [normal(RUNS, n, 6, seed=i).requires_grad_() for i, n in enumerate([5, replayed] * 2)]
    y, past_y = torch.tensor([[0, 1, 1, 2, 3], [2] * 5]), torch.tensor([[1, 1, 0], [0, 2, 0]])
    past = SimpleNamespace(x=None, y=past_y[:, :replayed])
    step: Any = SimpleNamespace(
        y=y, draw=lambda: past, net=lambda *parts: parts,
        plain=lambda draw=None: views[0] if draw is None else views[1],
        view=lambda draw=None: views[2] if draw is None else views[3],
    )  # fmt: skip
    temperature = torch.tensor([0.1, 0.5], dtype=torch.float64)
    loss = SCR(temperature).loss(step)
    labels = torch.cat([y, past.y], 1)
    plain, other = (torch.cat(views[i : i + 2], 1) for i in (0, 2))
    expected = torch.stack(
        [scr_loss(plain[k], other[k], labels[k], float(temperature[k])) for k in range(RUNS)]
    )
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=1e-12)
    used = [view for view in views if view.shape[1]]
    mine, theirs = (torch.autograd.grad(each.sum(), used) for each in (loss, expected))
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)


def fleet_of(method: SCR, memory: int = 8) -> Fleet:
    return Fleet(
        [method] * RUNS, lambda: MLP(6, CLASSES, hidden=(16,)), seeds=[0, 1], lr=[0.05, 0.1],
        classes=CLASSES, shape=(6,), memory=memory, replay=4, stored=torch.float64,
        dtype=torch.float64,
    )  # fmt: skip


@pytest.mark.parametrize("raw", [0, 1])
def test_predictions_are_distances_to_the_means_of_the_reference(raw: int) -> None:
    fleet = fleet_of(SCR(projection=3, raw=raw))
    x, y = normal(RUNS, 12, 6), torch.arange(12) % 3
    fleet.learn(x, y.repeat(RUNS, 1), 4)
    new = normal(RUNS, 7, 6, seed=5)
    scores = fleet.predict(new)
    stored: Stored = fleet.memory.fields()
    known, asked = (fleet.model.features(each) for each in (stored.x, new))
    assert known.shape[2] == 16  # what the projection reads
    for k in range(RUNS):
        means = class_means(known[k], stored.y[k], [*range(CLASSES)], normalised=not raw)
        squared = distances(asked[k], means, normalised=not raw)
        assert (scores[k, :, 3] == UNSEEN).all()
        for label in range(3):
            if means[label] is None:
                assert (scores[k, :, label] == UNSEEN).all()
            else:
                torch.testing.assert_close(-scores[k, :, label], squared[:, label].sqrt())


def test_before_anything_is_stored_there_is_no_mean() -> None:
    assert (fleet_of(SCR()).predict(normal(RUNS, 3, 6)) == UNSEEN).all()


@pytest.mark.parametrize(
    ("network", "size"),
    [
        (MLP(6, 3, hidden=(7,)), 7),
        (ResNet18(3, width=2), 16),
        (nn.Sequential(nn.Flatten(), nn.Linear(6, 3)), 6),
        (nn.Linear(6, 3), 6),
    ],
    ids=["mlp", "resnet", "sequence", "bare"],
)
def test_the_projection_takes_the_place_of_the_last_layer(network: nn.Module, size: int) -> None:
    made = projecting(network, width=9)
    head = next(layer for layer in made.modules() if isinstance(layer, Head))
    assert [tuple(p.shape) for p in head.parameters() if p.dim() > 1] in (
        [(size, size), (size, 9)],
        [(size, size), (9, size)],
    )
    assert Features(made).size == size
    assert not Features(made).axes()


def test_a_learner_grows_and_refuses_to_export_a_network_that_does_not_predict() -> None:
    torch.manual_seed(0)
    learner = Learner(MLP(6, 1, hidden=(32,)), SCR(projection=3), memory=20, lr=0.05, spare=0)
    x = (
        torch.randn(30, 6, generator=torch.Generator().manual_seed(0))
        + 4 * torch.eye(6)[torch.arange(30) % 3]
    )
    for start in [*range(0, 30, 3)] * 10:
        learner.observe(x[start : start + 3], ["a", "b", "c"])
    assert learner.predict(x[:3]) == ["a", "b", "c"]
    with pytest.raises(InputError, match="SCR does not predict with the outputs of its network"):
        learner.trained_module()
    assert learner.predict_proba(x).shape == (30, 3)
