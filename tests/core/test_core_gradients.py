"""Several gradients of a step, against gradients taken one by one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.core.networks import dense, mlp, model_of, normalised
from torch import Tensor, nn
from torch.nn import functional

from recollect.core.dense import Dense
from recollect.core.network import Network

SEEDS, SIZES = [3, 0, 8], [4, 1, 7]


def frozen() -> nn.Module:
    module = mlp()
    next(module.parameters()).requires_grad_(False)
    return module


class Twice(nn.Module):
    """The same layer twice."""

    broadcasts_runs = True

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = Dense(9, 9), Dense(9, 3)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.inner(self.inner(x.flatten(-3)).tanh()).tanh()
        logits: Tensor = self.head(hidden)
        return logits


def one_by_one(
    module: nn.Module, batches: list[tuple[Tensor, Tensor]]
) -> tuple[Tensor, list[dict[str, Tensor]]]:
    trained = {name: p for name, p in module.named_parameters() if p.requires_grad}
    losses, gradients = [], []
    for x, y in batches:
        loss = functional.cross_entropy(module(x), y)
        found = torch.autograd.grad(loss, list(trained.values()))
        losses.append(loss.detach())
        gradients.append(dict(zip(trained, found, strict=True)))
    return torch.stack(losses), gradients


@pytest.mark.parametrize("build", [mlp, dense, normalised, frozen, Twice])
def test_gradients_of_parts_are_those_of_passes_one_by_one(
    build: Callable[[], nn.Module],
) -> None:
    generator = torch.Generator().manual_seed(1)
    batches = [
        (
            torch.rand(3, n, 1, 3, 3, dtype=torch.float64, generator=generator),
            torch.randint(3, (3, n), generator=generator),
        )
        for n in SIZES
    ]
    shares = torch.rand(3, len(SIZES), dtype=torch.float64, generator=generator) - 0.5
    network = Network(build, SEEDS, dtype=torch.float64)
    model = model_of(network)
    losses, gradients = model.gradients(batches)
    dots, mixed = gradients.dots(), gradients.mixed(shares).named()
    for run, seed in enumerate(SEEDS):
        torch.manual_seed(seed)
        module = build().double()
        own = [(x[run], y[run]) for x, y in batches]
        expected, each = one_by_one(module, own)
        torch.testing.assert_close(losses[run], expected, rtol=0, atol=1e-12)
        rows = torch.stack([torch.cat([g.flatten() for g in one.values()]) for one in each])
        torch.testing.assert_close(dots[run], rows @ rows.T, rtol=0, atol=1e-12)
        assert mixed.keys() == each[0].keys()
        for name, tensor in mixed.items():
            total = sum(share * one[name] for share, one in zip(shares[run], each, strict=True))
            torch.testing.assert_close(tensor[run], total, rtol=0, atol=1e-12)
        for name, buffer in module.named_buffers():
            torch.testing.assert_close(network.buffers[name][run], buffer)


def test_inner_products_of_single_precision_are_double() -> None:
    network = Network(mlp, SEEDS)
    model = model_of(network)
    batch = (torch.rand(3, 2, 9), torch.zeros(3, 2, dtype=torch.int64))
    _, gradients = model.gradients([batch] * 5)
    dots = gradients.dots()
    assert dots.dtype == torch.float64
    least = torch.linalg.eigvalsh(dots).amin(1)
    assert (least > -1e-12 * dots.diagonal(dim1=1, dim2=2).sum(1)).all()
    assert all(t.dtype == torch.float32 for t in gradients.mixed(torch.ones(3, 5)).named().values())
