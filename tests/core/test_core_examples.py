"""Inner products of single examples' gradients, against gradients one by one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.core.networks import dense, mlp, model_of, normalised
from torch import Tensor, nn
from torch.nn import functional

from recollect.core.network import Network

SEEDS = [3, 0]


def frozen() -> nn.Module:
    module = dense()
    next(module.parameters()).requires_grad_(False)
    return module


@pytest.mark.parametrize("build", [mlp, dense, normalised, frozen])
def test_inner_products_are_those_of_gradients_one_by_one(build: Callable[[], nn.Module]) -> None:
    network = Network(build, SEEDS, dtype=torch.float64)
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(2, 6, 1, 3, 3, dtype=torch.float64, generator=generator)
    y = torch.randint(3, (2, 6), generator=generator)
    before = {name: tensor.clone() for name, tensor in network.buffers.items()}
    dots = model_of(network).gradient_dots(x, y)
    for run, seed in enumerate(SEEDS):
        torch.manual_seed(seed)
        module = build().double().eval()
        rows = torch.stack([_gradient(module, *one) for one in zip(x[run], y[run], strict=True)])
        torch.testing.assert_close(dots[run], rows @ rows.mT, rtol=1e-9, atol=1e-12)
    assert network.module.training
    for name, tensor in before.items():
        assert torch.equal(tensor, network.buffers[name])


def _gradient(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    loss = functional.cross_entropy(module(x[None]), y[None])
    trained = [p for p in module.parameters() if p.requires_grad]
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, trained)])
