"""Networks that change what they are shown: what is kept is what arrived."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from recollect import DER, ER, SGD, DERpp, DivergedError, InputError, Learner
from recollect.methods import GSS, Method

X = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
Y = [0, 1, 0, 1, 0, 1]


def in_place(normalised: bool = False) -> nn.Sequential:
    torch.manual_seed(0)
    first: nn.Module = nn.BatchNorm1d(4) if normalised else nn.Identity()
    return nn.Sequential(nn.ReLU(inplace=True), first, nn.Linear(4, 2))


def beside(normalised: bool = False) -> nn.Sequential:
    """The same, but it leaves its input alone."""
    _, *rest = in_place(normalised)
    return nn.Sequential(nn.ReLU(), *rest)


@pytest.mark.parametrize("method", [SGD(), ER(), DER(), DERpp(), GSS()], ids=lambda m: m.name)
@pytest.mark.parametrize("normalised", [False, True])
def test_what_is_kept_and_learned_is_what_arrived(method: Method, normalised: bool) -> None:
    """Batch normalisation makes the parts of a step pass one by one, without being joined."""
    arrived = torch.from_numpy(X.copy())
    one, other = (
        Learner(network(normalised), method, memory=40, classes=[0, 1])
        for network in (in_place, beside)
    )
    for _ in range(4):
        assert one.observe(arrived, Y) == other.observe(X, Y)
        assert one.predict(arrived) == other.predict(X)
        assert np.array_equal(arrived.numpy(), X)
    assert one._packed() == other._packed()
    engine = one._now.engine
    assert engine is not None
    if method.replay:
        assert torch.equal(engine.fleet.memory.fields().x[0, :6], torch.from_numpy(X))


class Replacing(nn.Module):
    """Puts another tensor in the place of its statistics whenever it is called."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.mean: Tensor
        self.register_buffer("mean", torch.zeros(4))
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        self.mean = (self.mean + x.mean(0)) / 2
        logits: Tensor = self.head(x - self.mean)
        return logits


def test_statistics_that_are_replaced_do_not_make_predictions_drift() -> None:
    learner = Learner(Replacing(), ER(), memory=10, classes=[0, 1])
    learner.observe(X, Y)
    first, second = (learner.predict_proba(X) for _ in range(2))
    assert np.array_equal(first, second)


class Frozen(nn.Module):
    """A frozen layer that moves a little with every step, and at times asks for trouble."""

    def __init__(self, counted: bool, later: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body, self.head = nn.Linear(4, 4), nn.Linear(4, 2)
        self.body.requires_grad_(False)
        self.counted, self.later, self.calls = counted, later, 0

    def forward(self, x: Tensor) -> Tensor:
        if self.training and torch.is_grad_enabled():
            self.calls += 1
            if not self.later or self.calls > 20:
                weight = self.body.weight
                (weight if self.counted else weight.data).mul_(0.99)
            if float(x[0, 0]) > 100:
                raise ValueError("trouble")
        logits: Tensor = self.head(self.body(x))
        return logits


@pytest.mark.parametrize(
    ("counted", "later"), [(True, False), (False, False), (True, True)],
    ids=["in place", "through .data", "after twenty steps"],
)  # fmt: skip
def test_a_frozen_layer_that_changes_itself_is_brought_back(counted: bool, later: bool) -> None:
    learner = Learner(Frozen(counted, later), ER(), memory=10)
    trouble = X.copy()
    trouble[0, 0] = 101
    weights = []
    for _ in range(30):
        learner.observe(X, Y)
        before = learner._packed()
        with pytest.raises(InputError, match="trouble"):
            learner.observe(trouble, Y)
        assert learner._packed() == before
        weights.append(float(learner.trained_module().body.weight.sum()))  # type: ignore[operator, union-attr]
    assert len(set(weights)) > 10, "the layer was to change"


def test_frozen_weights_that_stay_are_not_copied_at_every_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network = nn.Sequential(nn.Linear(4, 300), nn.ReLU(), nn.Linear(300, 2))
    network[0].requires_grad_(False)
    learner = Learner(network, ER(), memory=10)
    for _ in range(10):
        learner.observe(X, Y)
    copied: list[torch.Size] = []
    real = torch._foreach_copy_

    def noted(to: list[Tensor], of: list[Tensor]) -> None:
        copied.extend(tensor.shape for tensor in to)
        real(to, of)

    monkeypatch.setattr(torch, "_foreach_copy_", noted)
    learner.observe(X, Y)
    # The head with its 2 + 10 outputs lies in one storage, at multiples of 64 elements.
    assert copied == [torch.Size([57 * 64 + 64])]
    with pytest.raises((DivergedError, InputError)):
        learner.observe(np.full_like(X, 3e38), Y, on_outlier="learn")


def test_a_saved_learner_has_its_own_frozen_weights() -> None:
    """To load is to change weights; what was noted of those before must not come back."""
    network = nn.Sequential(nn.Linear(4, 300), nn.ReLU(), nn.Linear(300, 2))
    network[0].requires_grad_(False)
    learner = Learner(network, ER(), memory=10)
    for _ in range(10):
        learner.observe(X, Y)
    engine = learner._now.engine
    assert engine is not None
    state = {name: tensor.clone() for name, tensor in engine.fleet.tensors().items()}
    state["weights.0.weight"] += 1
    engine.fleet.restore(state, engine.fleet.clock)
    before = learner._packed()
    with pytest.raises((DivergedError, InputError)):
        learner.observe(np.full_like(X, 3e38), Y, on_outlier="learn")
    assert learner._packed() == before
