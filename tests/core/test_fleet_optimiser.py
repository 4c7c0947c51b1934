"""Fleet optimisers move every run as torch's optimiser moves that run alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from recollect.core.dense import Product
from recollect.core.fleet_optimiser import FleetOptimiser
from recollect.core.weights import Gradient, Weights

SHAPES = {"weight": (5, 4), "bias": (5,), "scale": ()}
STEPS = 200

CASES: dict[str, tuple[str, bool, list[dict[str, float]]]] = {
    "plain": ("SGD", False, [{}, {"weight_decay": 0.1}]),
    "momentum": ("SGD", False, [{"momentum": m} for m in (0.9, 0.5, 0.0, 0.99)]),
    "nesterov": ("SGD", True, [{"momentum": m, "weight_decay": 0.01} for m in (0.9, 0.5)]),
    "adam": ("Adam", False, [{}, {"beta1": 0.5}, {"beta2": 0.9, "eps": 1e-3}, {"weight_decay": 1}]),
    "adamw": ("AdamW", False, [{}, {"beta1": 0.5}, {"weight_decay": 0.0}, {"weight_decay": 0.3}]),
    "clip": ("SGD", False, [{"clip": 0.5, "momentum": 0.9}, {"clip": 5.0}, {}]),
    "adam clip": ("Adam", False, [{"clip": 0.1}, {"clip": 0.01}]),
}


def torch_optimiser(
    name: str, nesterov: bool, parameters: list[nn.Parameter], lr: float, told: dict[str, float]
) -> torch.optim.Optimizer:
    options: dict[str, Any] = {
        k: v for k, v in told.items() if k in ("momentum", "weight_decay", "eps")
    }
    if name == "SGD":
        return torch.optim.SGD(parameters, lr=lr, nesterov=nesterov, **options)
    options["betas"] = (told.get("beta1", 0.9), told.get("beta2", 0.999))
    kind: type[torch.optim.Optimizer] = getattr(torch.optim, name)
    return kind(parameters, lr=lr, **options)  # type: ignore[call-arg]


@pytest.mark.parametrize("case", CASES)
def test_every_run_moves_as_with_torch(case: str) -> None:
    name, nesterov, settings = CASES[case]
    runs = len(settings)
    generator = torch.Generator().manual_seed(1)

    def random(shape: tuple[int, ...]) -> Tensor:
        return torch.randn(runs, *shape, dtype=torch.float64, generator=generator)

    weights = Weights({n: random(shape) for n, shape in SHAPES.items()})
    rates = torch.linspace(0.01, 0.05, runs, dtype=torch.float64)
    alone = [[nn.Parameter(t[run].clone()) for t in weights] for run in range(runs)]
    optimisers = [
        torch_optimiser(name, nesterov, alone[run], float(rates[run]), settings[run])
        for run in range(runs)
    ]
    ours = FleetOptimiser.of(name, weights, settings, nesterov)
    for step in range(STEPS):
        parts = {n: random(shape) for n, shape in SHAPES.items()}
        if step % 3 == 2:  # a weight without a gradient stays, and its averages with it
            del parts["bias"]
        for run in range(runs):
            for n, parameter in zip(SHAPES, alone[run], strict=True):
                parameter.grad = parts[n][run].clone() if n in parts else None
            if "clip" in settings[run]:
                nn.utils.clip_grad_norm_(alone[run], settings[run]["clip"])
            optimisers[run].step()
        ours.descend(weights, Gradient(parts), rates)
    for run in range(runs):
        for mine, theirs in zip(weights.row(run), alone[run], strict=True):
            torch.testing.assert_close(mine[0], theirs.detach(), rtol=0, atol=1e-9)


def test_rows_share_the_state_of_the_fleet() -> None:
    weights = Weights({"w": torch.ones(3, 2, dtype=torch.float64)})
    gradient = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype=torch.float64)
    other = Weights({"w": weights.named()["w"].clone()})
    whole, apart = (
        FleetOptimiser.of("Adam", w, [{}, {"beta1": 0.5}, {}]) for w in (weights, other)
    )
    rate = torch.full((3,), 0.1, dtype=torch.float64)
    for _ in range(3):
        whole.descend(weights, Gradient({"w": gradient}), rate)
        for run in range(3):
            row = apart.row(run)
            row.descend(other.row(run), Gradient({"w": gradient[run : run + 1]}), rate[:1])
    assert torch.equal(weights.named()["w"], other.named()["w"])
    assert all(torch.equal(whole.state[name], apart.state[name]) for name in whole.state)
    assert whole.state["w.step"].tolist() == [3.0, 3.0, 3.0]


@pytest.mark.parametrize("runs", [1, 3])
def test_clipping_alone_does_not_expand_thin_gradients(runs: int) -> None:
    generator = torch.Generator().manual_seed(2)
    thin = Product(*(torch.randn(runs, 4, n, dtype=torch.float64, generator=generator)
                     for n in (6, 5)))  # fmt: skip
    bias = torch.randn(runs, 5, dtype=torch.float64, generator=generator)
    settings = [{"clip": most} for most in (0.5, 2.0, 1e3)[:runs]]
    rate = torch.full((runs,), 0.1, dtype=torch.float64)
    expected = torch.zeros(runs, 35, dtype=torch.float64)
    for run in range(runs):
        whole = torch.cat([thin.dense()[run].flatten(), bias[run]])
        expected[run] = -0.1 * whole * min(settings[run]["clip"] / float(whole.norm()), 1)
    weights = Weights({"weight": bias.new_zeros(runs, 6, 5), "bias": bias.new_zeros(runs, 5)})
    ours = FleetOptimiser.of("SGD", weights, settings)
    ours.descend(weights, Gradient({"weight": thin, "bias": bias}), rate)
    found = torch.cat([each.reshape(runs, -1) for each in weights], 1)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=0)
    assert not ours.state
    assert [*ours.settings] == ["clip"]
