"""STAR against its reference: the divergence and its gradient, around each of the methods."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.methods.references.star import star_term
from torch import Tensor, nn
from torch.func import functional_call

from recollect import MLP, InputError
from recollect.core.model import Model
from recollect.core.network import Network
from recollect.core.weights import State
from recollect.memory import Stored
from recollect.methods import STAR, Spec, Step, state_of
from recollect.methods.star import _normal

RUNS, CLASSES = 2, 3
LAMBDAS, GAMMAS, RATE, EPSILON = [0.4, 1.5], [0.05, 0.2], 0.3, 1e-4
SPEC = Spec(RUNS, 9, CLASSES, 1, CLASSES, (6,))


def dense() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, CLASSES))


def convolutional() -> nn.Module:
    stem = [nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 2, 3), nn.BatchNorm1d(2), nn.ReLU()]
    return nn.Sequential(*stem, nn.Flatten(), nn.Linear(8, CLASSES))


def examples(n: int, seed: int) -> Stored:
    generator = torch.Generator().manual_seed(seed)
    return Stored(
        x=torch.randn(RUNS, n, 6, dtype=torch.float64, generator=generator),
        y=torch.randint(CLASSES, (RUNS, n), generator=generator),
        logits=torch.randn(RUNS, n, CLASSES, dtype=torch.float64, generator=generator),
    )


def step_of(network: Network, replays: list[Stored], state: State) -> Step:
    rate = torch.full((RUNS,), RATE, dtype=torch.float64)
    model = Model(network, network.weights, network.buffers, rate)
    arrived = examples(4, 0)
    return Step(arrived.x, arrived.y, model, replays, state, key=torch.tensor([3, 8]))


@pytest.mark.parametrize("kind", ["mlp", "dense", "convolutional"])
@pytest.mark.parametrize("around", [1, 2, 3])
def test_a_step_adds_the_gradient_of_the_reference(
    around: int, kind: str, tiny_net: Callable[[], MLP]
) -> None:
    build = {"mlp": tiny_net, "dense": dense, "convolutional": convolutional}[kind]
    method = STAR(
        torch.tensor(LAMBDAS, dtype=torch.float64), torch.tensor(GAMMAS, dtype=torch.float64),
        around=around, epsilon=EPSILON,
    )  # fmt: skip
    inner = method.around_method()
    draws = [examples(6, seed) for seed in (1, 2, 3)][: 1 + (2 if around == 3 else 1)]
    mine, other, third = (Network(build, [0, 1], dtype=torch.float64) for _ in range(3))
    answers = third(third.weights, draws[0].x).argmax(2)
    draws[0].y[:, :3] = answers[:, :3]  # some are right
    states = [
        State(state_of(method.setup(SPEC), step_of(mine, [], State()).model)[0]) for _ in "ab"
    ]
    step = step_of(mine, draws, states[0])
    loss = method.update(step)
    plain = step_of(other, draws[1:], states[1])
    loss_around = inner.update(plain)
    weights = {n: w for n, w in mine.weights.named().items() if w.dim() > 2}
    noise = dict(
        zip(weights, _normal(step_of(mine, [], State()), [*weights.values()]), strict=True)
    )
    for k in range(RUNS):
        torch.manual_seed(k)
        module = build().double()
        named = dict(module.named_parameters())

        def forward(parameters: list[Tensor], x: Tensor, module: nn.Module = module) -> Tensor:
            names = [name for name, _ in module.named_parameters()]
            buffers = {name: b.clone() for name, b in module.named_buffers()}
            tensors = {**dict(zip(names, parameters, strict=True)), **buffers}
            logits: Tensor = functional_call(module, tensors, (x,))
            return logits

        drawn = [noise[n][k] if n in noise else torch.zeros_like(p) for n, p in named.items()]
        past = draws[0]
        term = star_term(
            forward, [*named.values()], past.x[k], past.y[k], drawn, EPSILON, GAMMAS[k],
            LAMBDAS[k], minimum=1,
        )  # fmt: skip
        assert term is not None
        torch.testing.assert_close(loss[k], loss_around[k] + term.value, rtol=1e-9, atol=1e-12)
        for (name, _), gradient in zip(named.items(), term.gradient, strict=True):
            found = other.weights.named()[name][k] - mine.weights.named()[name][k]
            torch.testing.assert_close(found, RATE * gradient, rtol=1e-7, atol=1e-10)
    for name, buffer in mine.buffers.items():  # the passes of the copy leave them alone
        torch.testing.assert_close(buffer, other.buffers[name], rtol=0, atol=0)


def test_wrong_answers_and_an_empty_memory_add_nothing(tiny_net: Callable[[], MLP]) -> None:
    for past in (examples(5, 1), examples(0, 1)):
        mine, other = (Network(tiny_net, [0, 1], dtype=torch.float64) for _ in range(2))
        logits = other(other.weights, past.x)
        wrong = Stored({**past, "y": logits.argmin(2)})
        STAR(around=1).update(step_of(mine, [wrong, examples(3, 2)], State()))
        STAR(around=1).around_method().update(step_of(other, [examples(3, 2)], State()))
        for a, b in zip(mine.weights, other.weights, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_random_starts_are_normal_and_differ_from_run_to_run(tiny_net: Callable[[], MLP]) -> None:
    network = Network(tiny_net, [0, 1], dtype=torch.float64)
    (found,) = _normal(step_of(network, [], State()), [torch.zeros(RUNS, 200, 100)])
    assert found.isfinite().all()
    assert abs(float(found.mean())) < 0.02
    assert abs(float(found.std()) - 1) < 0.02
    assert abs(float((found[0] * found[1]).mean())) < 0.03


def test_it_is_around_a_method_that_exists() -> None:
    with pytest.raises(InputError, match="around of STAR must be 1"):
        STAR(around=4).setup(SPEC)
