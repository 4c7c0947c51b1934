"""The network that leaves a learner has one output for every known class, and no others."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from recollect import ER, MLP, DERpp, Learner
from recollect.nets import Standardise

X = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
Y = list("abcabcab")


class Mixed(nn.Module):
    """A network whose outputs are mixed after the last linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 6), nn.Linear(6, 12)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(x).relu())
        return logits.log_softmax(-1)


NETWORKS = {
    "MLP": lambda: MLP(4, 1),
    "linear": lambda: nn.Linear(4, 1),
    "no bias": lambda: nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 1, bias=False)),
    "standardised": lambda: nn.Sequential(Standardise(4), MLP(4, 1)),
    "dropout": lambda: nn.Sequential(nn.Linear(4, 5), nn.Dropout(0.5), nn.Linear(5, 1)),
    "mixed": Mixed,
}


@pytest.mark.parametrize("name", NETWORKS)
def test_argmax_is_always_a_known_class(name: str) -> None:
    torch.manual_seed(0)
    learner = Learner(NETWORKS[name](), DERpp(), memory=20)
    for _ in range(5):
        learner.observe(X, Y)
    module = learner.trained_module()
    assert module.training
    logits = module.eval()(torch.from_numpy(X))
    assert logits.shape == (8, 3)
    assert [learner.classes[n] for n in logits.argmax(1).tolist()] == learner.predict(X)
    shares = logits.softmax(1).detach().numpy()
    np.testing.assert_allclose(shares, learner.predict_proba(X), atol=1e-5)
    torch.save(module, io.BytesIO())
    learner.observe(X, ["d"] * 8)
    assert learner.trained_module().eval()(torch.from_numpy(X)).shape == (8, 4)


def test_a_head_with_more_outputs_than_listed_classes_is_cut_too() -> None:
    learner = Learner(MLP(4, 10), ER(), classes=["a", "b", "c"])
    learner.observe(X, Y)
    assert learner.trained_module()(torch.from_numpy(X)).shape == (8, 3)


def test_frozen_weights_stay_frozen_and_the_learner_is_not_changed() -> None:
    network = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 1))
    network[0].requires_grad_(False)
    learner = Learner(network, ER())
    learner.observe(X, Y)
    before, random = learner._packed(), torch.random.get_rng_state()
    module = learner.trained_module()
    assert [p.requires_grad for p in module.parameters()] == [False, False, True, True]
    assert learner._packed() == before
    assert torch.equal(torch.random.get_rng_state(), random)
