"""A model's copies: what is saved, averaged or copied, with the statistics of its layers."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from tests.builders import close
from tests.core.networks import dense, mlp, normalised
from torch import Tensor, nn
from torch.nn import functional

from recollect.core.losses import cross_entropy
from recollect.core.model import Model
from recollect.core.network import Network
from recollect.core.weights import State

SEEDS, RATES = [3, 0], [0.1, 0.4]
every_network = pytest.mark.parametrize("build", [mlp, dense, normalised])
every_size = pytest.mark.parametrize("runs", [1, 2])


def model_of(build: Callable[[], nn.Module], runs: int = 2) -> Model:
    network = Network(build, SEEDS[:runs], dtype=torch.float64)
    rates = torch.tensor(RATES[:runs], dtype=torch.float64)
    return Model(network, network.weights, network.buffers, rates)


def examples(runs: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(runs, 7, 1, 3, 3, dtype=torch.float64, generator=generator)
    return x, torch.randint(3, (runs, 7), generator=generator)


def train(model: Model, steps: int = 3) -> None:
    for step in range(steps):
        x, y = examples(model.runs, step)
        model.descend(model.gradient(cross_entropy(model(x), y)))


def tensors(model: Model) -> dict[str, Tensor]:
    named = {**model.weights.named(), **model.buffers}
    return {name: tensor.clone() for name, tensor in named.items()}


def assert_equal(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert torch.equal(tensor, theirs[name]), name


@every_size
@every_network
def test_a_copy_and_the_model_change_apart(build: Callable[[], nn.Module], runs: int) -> None:
    model = model_of(build, runs)
    train(model, 1)
    start, other = tensors(model), model.copy()
    train(other)
    assert_equal(tensors(model), start)
    ahead = tensors(other)
    assert all(not torch.equal(ahead[name], start[name]) for name in start)
    train(model)
    assert_equal(tensors(other), ahead)
    for name, tensor in ahead.items():
        close(tensors(model)[name], tensor, 1e-12)


@every_size
@every_network
def test_what_is_saved_predicts_as_the_model_did(build: Callable[[], nn.Module], runs: int) -> None:
    model, (x, _) = model_of(build, runs), examples(runs, 9)
    state = State(model.snapshot("old"))
    assert torch.equal(model.stored(state, "old").logits(x), model.logits(x))
    modules = [copy.deepcopy(module).train() for module in _modules(build, runs)]
    train(model)
    for run, module in enumerate(modules):
        _train_by_hand(module, run, runs)
    held = {name: id(tensor) for name, tensor in state.items()}
    model.save(state, "old")
    assert held == {name: id(tensor) for name, tensor in state.items()}, "in place"
    before, features = model.logits(x), model.features(x)
    train(model)
    stored = model.stored(state, "old")
    assert torch.equal(stored.logits(x), before)
    assert torch.equal(stored.features(x), features)
    assert not torch.allclose(model.logits(x), before)
    for run, module in enumerate(modules):
        close(stored.logits(x)[run], module.eval()(x[run]))
    saved = {name: tensor.clone() for name, tensor in state.items()}
    stored.logits(x)
    model.logits(x)
    assert_equal(dict(state), saved)


def _modules(build: Callable[[], nn.Module], runs: int) -> list[nn.Module]:
    made = []
    for seed in SEEDS[:runs]:
        torch.manual_seed(seed)
        made.append(build().double())
    return made


def _train_by_hand(module: nn.Module, run: int, runs: int) -> None:
    for step in range(3):
        x, y = examples(runs, step)
        loss = functional.cross_entropy(module(x[run]), y[run])
        parts = torch.autograd.grad(loss, list(module.parameters()))
        with torch.no_grad():
            for parameter, part in zip(module.parameters(), parts, strict=True):
                parameter.sub_(RATES[run] * part)


@pytest.mark.parametrize("share", [0.25, [0.0, 0.9]])
@every_network
def test_an_average_moves_weights_and_statistics_towards_another(
    build: Callable[[], nn.Module], share: float | list[float]
) -> None:
    model, x = model_of(build), examples(2, 9)[0]
    train(model, 1)
    other = model.copy()
    train(other)
    mine, theirs = tensors(model), tensors(other)
    shares = torch.tensor(share, dtype=torch.float64).expand(2)
    model.average_(other, share if isinstance(share, float) else shares)
    for name, tensor in tensors(model).items():
        if tensor.is_floating_point():
            part = shares.view(-1, *[1] * (tensor.dim() - 1))
            close(tensor, (1 - part) * mine[name] + part * theirs[name], 1e-12)
        else:
            assert torch.equal(tensor, theirs[name]), "what is counted is copied"
    assert_equal(tensors(other), theirs)
    if isinstance(share, list):
        for name, tensor in tensors(model).items():
            if tensor.is_floating_point():
                assert torch.equal(tensor[0], mine[name][0]), "a share of 0 moves nothing"
    model.copy_(other)
    assert_equal(tensors(model), theirs)
    assert torch.equal(model.logits(x), other.logits(x))


def test_an_average_can_be_saved_in_a_state() -> None:
    """A moving average of the networks, as many methods keep one."""
    model = model_of(normalised)
    state, x = State(model.snapshot("mean")), examples(2, 9)[0]
    model.save(state, "mean")
    expected = tensors(model)
    for _ in range(3):
        train(model, 1)
        model.stored(state, "mean").average_(model, 0.1)
        for name, tensor in tensors(model).items():
            if tensor.is_floating_point():
                expected[name] = 0.9 * expected[name] + 0.1 * tensor
            else:
                expected[name] = tensor
    mean = model.stored(state, "mean")
    for name, tensor in tensors(mean).items():
        close(tensor, expected[name], 1e-12)
    assert expected["1.num_batches_tracked"].tolist() == [3, 3]
    assert not torch.allclose(mean.logits(x), model.logits(x))
