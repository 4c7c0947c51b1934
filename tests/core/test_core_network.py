"""K networks called as one: the strategies agree, and each run starts from its own seed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from recollect import MLP
from recollect.core.modules import Strategy
from recollect.core.network import Network
from recollect.errors import InputError

SEEDS = [3, 0, 11]
SHAPE = (1, 4, 4)


def mlp() -> nn.Module:
    return MLP(16, 3, hidden=(5, 4))


def dense() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 5), nn.Tanh(), nn.Linear(5, 3))


def convolutional() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))


def normalised() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 3))


def inputs(runs: int = 3) -> Tensor:
    return torch.rand(runs, 6, *SHAPE, dtype=torch.float64, generator=torch.manual_seed(5))


def alone(build: Callable[[], nn.Module], seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return build().double()


@pytest.mark.parametrize(
    ("build", "strategy"),
    [
        (mlp, "broadcast"), (mlp, "vmap"), (mlp, "loop"), (dense, "vmap"), (dense, "loop"),
        (convolutional, "vmap"), (convolutional, "loop"), (normalised, "loop"),
    ],
)  # fmt: skip
def test_every_strategy_gives_each_run_its_own_logits_and_gradient(
    build: Callable[[], nn.Module], strategy: Strategy
) -> None:
    network = Network(build, SEEDS, dtype=torch.float64, strategy=strategy)
    x = inputs()
    leaves = network.watch(network.weights)
    logits = network(leaves, x)
    loss = logits.square().flatten(1).sum(1)
    gradient = network.gradient(leaves, loss).dense().named()
    for k, seed in enumerate(SEEDS):
        module = alone(build, seed)
        own = module(x[k])
        torch.testing.assert_close(logits[k], own, rtol=0, atol=1e-12)
        own.square().sum().backward()
        for name, parameter in module.named_parameters():
            torch.testing.assert_close(gradient[name][k], parameter.grad, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("build", "strategy"),
    [(mlp, "broadcast"), (dense, "vmap"), (convolutional, "loop"), (normalised, "loop")],
)
def test_the_strategy_is_chosen_by_what_the_module_is_made_of(
    build: Callable[[], nn.Module], strategy: str
) -> None:
    assert Network(build, SEEDS).strategy == strategy


def test_a_network_called_twice_has_the_gradient_of_both_calls() -> None:
    for strategy in ("broadcast", "loop"):
        network = Network(mlp, SEEDS, dtype=torch.float64, strategy=strategy)
        leaves = network.watch(network.weights)
        loss = (network(leaves, inputs()) * network(leaves, inputs() + 1)).flatten(1).sum(1)
        gradient = network.gradient(leaves, loss).dense().named()
        for k, seed in enumerate(SEEDS):
            module = alone(mlp, seed)
            own = (module(inputs()[k]) * module(inputs()[k] + 1)).sum()
            parts = torch.autograd.grad(own, list(module.parameters()))
            for (name, _), part in zip(module.named_parameters(), parts, strict=True):
                torch.testing.assert_close(gradient[name][k], part, rtol=1e-10, atol=1e-12)


def test_calling_without_gradients_leaves_no_trace() -> None:
    network = Network(mlp, SEEDS, dtype=torch.float64)
    with torch.no_grad():
        logits = network(network.weights, inputs())
    assert not logits.requires_grad
    leaves = network.watch(network.weights)
    network.gradient(leaves, network(leaves, inputs()).flatten(1).sum(1))
    assert torch.equal(network(network.weights, inputs()), logits)


def test_running_statistics_belong_to_a_run() -> None:
    network = Network(normalised, SEEDS, dtype=torch.float64)
    modules = [alone(normalised, seed) for seed in SEEDS]
    for x in (inputs(), inputs() + 1):
        network(network.weights, x)
        for k, module in enumerate(modules):
            module(x[k])
    for name, stacked in network.buffers.items():
        expected = torch.stack([dict(module.named_buffers())[name] for module in modules])
        torch.testing.assert_close(stacked, expected)
    assert network.buffers["1.num_batches_tracked"].tolist() == [2, 2, 2]
    assert not torch.equal(
        network.buffers["1.running_mean"][0], network.buffers["1.running_mean"][1]
    )


def test_a_run_starts_from_its_seed_whatever_the_fleet() -> None:
    whole = Network(dense, SEEDS).weights.named()
    for k, seed in enumerate(SEEDS):
        for name, tensor in Network(dense, [seed]).weights.named().items():
            assert torch.equal(tensor[0], whole[name][k])
    assert not torch.equal(whole["1.weight"][0], whole["1.weight"][1])


def test_making_networks_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    Network(dense, SEEDS)
    assert torch.equal(torch.rand(3), expected)


def test_every_run_starts_from_the_weights_of_a_module() -> None:
    module = dense()
    network = Network(module, SEEDS)
    for name, parameter in module.named_parameters():
        assert torch.equal(
            network.weights.named()[name], parameter.detach().expand(3, *parameter.shape)
        )
    network.weights.add_(network.weights.snapshot(), torch.ones(3))
    assert not torch.equal(network.weights.named()["1.weight"][0], module.state_dict()["1.weight"])


def test_your_module_stays_as_it_was() -> None:
    module = normalised().double().eval()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    network = Network(module, SEEDS, dtype=torch.float32)
    network(network.weights, inputs().float())
    network.module.train()
    assert not module.training
    for name, tensor in module.state_dict().items():
        assert tensor.dtype == before[name].dtype
        assert torch.equal(tensor, before[name])


def test_it_trains_although_the_module_is_in_evaluation_mode() -> None:
    network = Network(normalised().eval(), SEEDS)
    assert all(layer.training for layer in network.module.modules())
    with network.mode(training=False):
        assert not any(layer.training for layer in network.module.modules())
    assert all(layer.training for layer in network.module.modules())


def test_something_else_than_a_module_is_refused() -> None:
    build = cast(Any, lambda: 3)
    with pytest.raises(InputError, match=r"must be a torch\.nn\.Module.*not int"):
        Network(build, SEEDS)


@pytest.mark.parametrize("build", [mlp, dense, normalised])
@pytest.mark.parametrize("shape", [(2, 5, 1, 4, 3), (2, 16), (2,)])
def test_inputs_of_a_wrong_shape_are_refused(
    build: Callable[[], nn.Module], shape: tuple[int, ...]
) -> None:
    """With the shape that the network was tried with, and the one that was given."""
    network = Network(build, [0, 1])
    network.settle(torch.zeros(2, 2, *SHAPE))
    message = "inputs must have the shape [2, n, 1, 4, 4] (runs, examples"
    with pytest.raises(InputError, match=re.escape(message)) as error:
        network(network.weights, torch.zeros(shape))
    assert str(error.value).endswith(f"not {list(shape)}")
