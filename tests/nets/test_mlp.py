"""The multi-layer perceptron: the paper's sizes, and the same function with a run axis."""

from __future__ import annotations

import math

import torch
from torch.func import functional_call

from recollect import MLP


def test_it_has_two_hidden_layers_of_a_hundred_units() -> None:
    shapes = [tuple(parameter.shape) for parameter in MLP(784, 10).parameters()]
    assert shapes == [(784, 100), (100,), (100, 100), (100,), (100, 10), (10,)]


def test_it_is_affine_layers_with_relu_between_them() -> None:
    net = MLP(6, 3, hidden=(5, 4)).double()
    x = torch.rand(7, 2, 3, dtype=torch.float64)
    w1, b1, w2, b2, w3, b3 = net.parameters()
    hidden = (x.reshape(7, 6) @ w1 + b1).clamp(min=0)
    hidden = (hidden @ w2 + b2).clamp(min=0)
    torch.testing.assert_close(net(x), hidden @ w3 + b3)


def test_weights_are_xavier_uniform_and_biases_zero() -> None:
    weight, bias = (p.detach() for p in MLP(300, 200, hidden=()).parameters())
    bound = math.sqrt(6 / 500)
    assert float(weight.abs().max()) <= bound
    assert abs(float(weight.std()) / (bound / math.sqrt(3)) - 1) < 0.02
    assert not bias.any()


def test_a_run_axis_gives_every_run_its_own_network() -> None:
    nets = [MLP(6, 3, hidden=(5,)).double() for _ in range(4)]
    stacked = {
        name: torch.stack([dict(net.named_parameters())[name].detach() for net in nets])
        for name, _ in nets[0].named_parameters()
    }
    x = torch.rand(4, 7, 2, 3, dtype=torch.float64)
    together = functional_call(nets[0], stacked, (x,))
    torch.testing.assert_close(together, torch.stack([net(x[k]) for k, net in enumerate(nets)]))
