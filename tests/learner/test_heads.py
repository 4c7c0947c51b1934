"""The head of a network is the layer that computes its logits, wherever it was registered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from recollect import ER, InputError, Learner, Method, from_arrays, run
from recollect.core.heads import head_of, mark_head
from recollect.core.modules import Features, replace_head
from recollect.methods import METHODS


class HeadFirst(nn.Module):
    """A network whose head was registered before its body."""

    def __init__(self, classes: int = 1) -> None:
        super().__init__()
        self.head, self.body = nn.Linear(8, classes), nn.Linear(4, 8)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(x).relu())
        return logits


class Auxiliary(nn.Module):
    """A network with a layer after its head, which it may call but whose output it drops."""

    def __init__(self, classes: int = 1, called: bool = False) -> None:
        super().__init__()
        self.body, self.head, self.other = nn.Linear(4, 8), nn.Linear(8, classes), nn.Linear(8, 5)
        self.called = called

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        features = self.body(x).relu()
        logits = self.head(features)
        if self.called:
            self.other(features)
        return {"logits": logits}


NETWORKS: list[Any] = [HeadFirst, Auxiliary, lambda classes=1: Auxiliary(classes, called=True)]
X = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)


@pytest.mark.parametrize("method", [ER(), METHODS["ncm"](), METHODS["slda"](), METHODS["ranpac"](),
                                    METHODS["cls-er"](), METHODS["derpp"]()],
                         ids=lambda method: method.name)  # fmt: skip
@pytest.mark.parametrize("network", NETWORKS)
def test_the_head_grows_is_saved_and_exported(network: Any, method: Method, tmp_path: Path) -> None:
    torch.manual_seed(0)
    learner = Learner(network(), method, memory=20, spare=1)
    for first in range(0, 40, 4):
        label = first // 8
        learner.observe(X[first : first + 4], [label, label + 1] * 2)
    assert learner.classes == [0, 1, 2, 3, 4, 5]
    shares = learner.predict_proba(X)
    learner.save(tmp_path / "saved")
    loaded = Learner.load(tmp_path / "saved", network())
    assert (loaded.predict_proba(X) == shares).all()
    loaded.observe(X[:4], ["new", "newer", "newest", 0])
    module = learner.trained_module().eval()
    with torch.no_grad():
        found = module(torch.from_numpy(X))
    logits = found["logits"] if isinstance(found, dict) else found
    assert logits.shape == (40, 6)
    assert torch.allclose(logits.softmax(1), torch.from_numpy(shares).float(), atol=1e-5)


def test_values_are_learned_by_a_network_whose_head_comes_first() -> None:
    torch.manual_seed(0)
    learner = Learner(HeadFirst(), ER(), target="regression")
    learner.observe(X, (100 + X.sum(1)).tolist())
    with torch.no_grad():
        found = learner.trained_module().eval()(torch.from_numpy(X)).squeeze(1)
    assert torch.allclose(found, torch.tensor(learner.predict(X)).float(), atol=1e-3)


@pytest.mark.parametrize("name", ["icarl", "scr", "ncm", "lwf"])
def test_methods_that_use_features_run_with_a_network_whose_head_comes_first(name: str) -> None:
    y = torch.arange(40) % 4
    stream = from_arrays(torch.from_numpy(X), y, tasks=2, test=(torch.from_numpy(X), y))
    given: dict[str, Any] = {"buffer": 8} if METHODS[name].replay else {}
    results = run(stream, name, network=lambda: HeadFirst(4), bs=8, lr=0.1, seeds=[0], **given)
    assert results


def test_features_are_the_inputs_of_the_layer_that_computes_the_logits() -> None:
    x = torch.from_numpy(X)
    for network in NETWORKS:
        module = mark_head(network(3), x)
        with torch.no_grad(), Features(module).returned():
            found = module(x)
            assert torch.equal(found[:, :8], module.body(x).relu())
        assert found.shape == (40, 11)


def test_the_usual_head_is_not_marked() -> None:
    """Then nothing depends on the inputs that a network is tried on."""
    module = mark_head(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), torch.ones(2, 4))
    assert head_of(module) is module[2]
    assert all(not hasattr(layer, "_recollect_head") for layer in module)


def test_a_marked_head_keeps_its_mark_when_it_is_replaced_but_not_inside_another_network() -> None:
    module = mark_head(HeadFirst(3), torch.ones(2, 4))
    replace_head(module, nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3)))
    assert head_of(module) is module.head[2]  # type: ignore[index]
    outer = mark_head(nn.Sequential(module, nn.ReLU(), nn.Linear(3, 2)), torch.ones(2, 4))
    assert head_of(outer) is outer[2]


def test_finding_the_head_changes_nothing() -> None:
    class Noisy(HeadFirst):
        calls: Tensor

        def __init__(self) -> None:
            super().__init__(3)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: Tensor) -> Tensor:
            self.calls = self.calls + 1
            return super().forward(x + 0 * torch.randn_like(x))

    module = Noisy().train()
    before = torch.random.get_rng_state()
    mark_head(module, torch.ones(2, 4))
    assert torch.equal(before, torch.random.get_rng_state())
    assert module.calls == 0
    assert module.training
    assert head_of(module) is module.head


def test_a_layer_that_is_not_called_has_no_features() -> None:
    class Scaled(Auxiliary):
        def forward(self, x: Tensor) -> dict[str, Tensor]:
            return {"logits": super().forward(x)["logits"] / 2}

    with pytest.raises(InputError, match="registered last"):
        Learner(Scaled(3), METHODS["ncm"]()).observe(X, [0, 1] * 20)
