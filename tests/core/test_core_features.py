"""Features: what the last dense layer reads, for every run and in every strategy."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from recollect import MLP
from recollect.core.modules import Features, Strategy
from recollect.core.network import Network
from recollect.errors import InputError

SEEDS = [3, 0, 11]


def mlp() -> nn.Module:
    return MLP(16, 3, hidden=(5, 4))


def dense() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 4), nn.Tanh(), nn.Linear(4, 3))


def normalised() -> nn.Module:
    first = [nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten()]
    return nn.Sequential(*first, nn.Linear(8, 3))


def inputs() -> Tensor:
    return torch.rand(3, 6, 1, 4, 4, dtype=torch.float64, generator=torch.manual_seed(5))


def by_hand(build: Callable[[], nn.Module], seed: int, x: Tensor) -> tuple[Tensor, Tensor]:
    """The features and logits of one module that is called as it is."""
    torch.manual_seed(seed)
    module = build().double().eval()
    if isinstance(module, MLP):
        features = x.flatten(1)
        for layer in module.hidden:
            features = layer(features).relu()
        return features, module(x)
    *first, head = module.children()
    features = nn.Sequential(*first)(x)
    return features, head(features)


@pytest.mark.parametrize(
    ("build", "strategy"),
    [
        (mlp, "broadcast"), (mlp, "vmap"), (mlp, "loop"), (dense, "vmap"), (dense, "loop"),
        (normalised, "loop"),
    ],
)  # fmt: skip
def test_every_strategy_gives_each_run_its_own_features(
    build: Callable[[], nn.Module], strategy: Strategy
) -> None:
    network, x = Network(build, SEEDS, dtype=torch.float64, strategy=strategy), inputs()
    before = {name: tensor.clone() for name, tensor in network.buffers.items()}
    with network.mode(training=False), torch.no_grad():
        for weights in (network.weights, network.weights.snapshot()):
            features, logits = network.features(weights, x)
            assert features.shape == (3, 6, network.feature_size)
            for k, seed in enumerate(SEEDS):
                mine, answers = by_hand(build, seed, x[k])
                torch.testing.assert_close(features[k], mine, rtol=0, atol=1e-12)
                torch.testing.assert_close(logits[k], answers, rtol=0, atol=1e-12)
        assert torch.equal(network(network.weights, x), logits), "and plain logits afterwards"
    for name, tensor in network.buffers.items():
        assert torch.equal(tensor, before[name])


@pytest.mark.parametrize("build", [mlp, dense, normalised])
def test_the_size_is_what_the_last_layer_reads(build: Callable[[], nn.Module]) -> None:
    assert Features(build()).size == {mlp: 4, dense: 4, normalised: 8}[build]


def test_features_are_returned_only_meanwhile() -> None:
    module = dense()
    features, x = Features(module), torch.rand(5, 1, 4, 4)
    plain = module(x)
    with features.returned():
        both = module(x)
    with pytest.raises(RuntimeError), features.returned():
        module(torch.rand(5, 3))
    assert torch.equal(both[:, 4:], plain)
    assert torch.equal(both[:, :4], module[:-1](x))  # type: ignore[index]
    assert torch.equal(module(x), plain)


def test_a_network_without_a_linear_layer_has_none() -> None:
    features = Features(nn.Conv2d(1, 2, 3))
    assert features.size == 0
    with pytest.raises(InputError, match="this network has no linear layer"), features.returned():
        pass
