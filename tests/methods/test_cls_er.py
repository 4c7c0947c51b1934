"""CLS-ER against its reference: the loss, the weights, both copies; and the copies' statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.methods.references.cls_er import cls_er_step
from torch import Tensor, nn
from torch.func import functional_call

from recollect import MLP, Fleet
from recollect.core.model import Model
from recollect.core.network import Network
from recollect.core.weights import State
from recollect.memory import Stored
from recollect.methods import CLSER, Spec, Step, state_of

RUNS, CLASSES, RATE = 2, 3, 0.3
LAMBDAS, DECAYS, RATES = [0.7, 2.0], ([0.6, 0.9], [0.8, 0.95]), ([0.9, 0.5], [0.6, 0.4])


def examples(n: int, seed: int) -> Stored:
    generator = torch.Generator().manual_seed(seed)
    return Stored(
        x=torch.randn(RUNS, n, 6, dtype=torch.float64, generator=generator),
        y=torch.randint(CLASSES, (RUNS, n), generator=generator),
    )


@pytest.mark.parametrize("constant", [0, 1])
def test_steps_are_those_of_the_reference(constant: int, tiny_net: Callable[[], MLP]) -> None:
    network = Network(tiny_net, [0, 1], dtype=torch.float64)
    rate = torch.full((RUNS,), RATE, dtype=torch.float64)
    model = Model(network, network.weights, network.buffers, rate)
    names = ("lambda_", "plastic_rate", "stable_rate", "plastic_decay", "stable_decay")
    columns: dict[str, Any] = {
        name: torch.tensor(each, dtype=torch.float64)
        for name, each in zip(names, (LAMBDAS, *RATES, *DECAYS), strict=True)
    }
    method = CLSER(**columns, constant=constant)
    made, _ = state_of(method.setup(Spec(RUNS, 9, CLASSES, 1, CLASSES, (6,))), model)
    state = State({name: tensor.clone() for name, tensor in made.items()})
    modules, expected = [], []
    for k in range(RUNS):
        torch.manual_seed(k)
        modules.append(tiny_net().double())
        begun = [p.detach().clone() for p in modules[k].parameters()]
        expected.append((begun, begun, begun))
    for number in range(1, 7):
        arrived, past = examples(4, number), examples(0 if number == 1 else 5, 100 + number)
        key = torch.arange(RUNS) + 1000 * number
        numbers = Step(arrived.x, arrived.y, model, key=key).random(2)[:, 0]
        step = Step(arrived.x, arrived.y, model, [past], state, key=key)
        loss = method.update(step)
        for k in range(RUNS):
            parts = [name for name, _ in modules[k].named_parameters()]

            def forward(
                parameters: list[Tensor],
                x: Tensor,
                names: list[str] = parts,
                module: nn.Module = modules[k],
            ) -> Tensor:
                logits: Tensor = functional_call(
                    module, dict(zip(names, parameters, strict=True)), (x,)
                )
                return logits

            value, *copies = cls_er_step(
                forward, *expected[k], (arrived.x[k], arrived.y[k]),
                (past.x[k], past.y[k]) if number > 1 else None, number, LAMBDAS[k],
                (DECAYS[0][k], DECAYS[1][k]), (RATES[0][k], RATES[1][k]),
                (float(numbers[k, 0]), float(numbers[k, 1])), RATE,
                "publication" if constant else "authors",
            )  # fmt: skip
            expected[k] = (copies[0], copies[1], copies[2])
            torch.testing.assert_close(loss[k], value, rtol=1e-10, atol=1e-12)
            found = (
                model.weights.named(),
                state.weights("plastic").named(),
                state.weights("stable").named(),
            )
            for mine, theirs in zip(found, expected[k], strict=True):
                for name, tensor in zip(parts, theirs, strict=True):
                    torch.testing.assert_close(mine[name][k], tensor, rtol=1e-10, atol=1e-12)


def normalised() -> nn.Module:
    stem = [nn.Linear(6, 4), nn.BatchNorm1d(4), nn.ReLU()]
    return nn.Sequential(*stem, nn.Linear(4, CLASSES))


def test_the_stable_copy_has_statistics_of_its_own_and_predicts_with_them() -> None:
    """They are those of replayed examples that went through it in training mode."""
    fleet = Fleet(
        [CLSER(stable_decay=0.5)] * RUNS, normalised, seeds=[0, 1], lr=[0.1, 0.1],
        classes=CLASSES, shape=(6,), memory=8, replay=8, stored=torch.float64,
        dtype=torch.float64,
    )  # fmt: skip
    first = examples(8, 0)
    fleet.learn(first.x, first.y, 8)
    before = {name: tensor.clone() for name, tensor in fleet.state.items()}
    assert (before["stable.buffers.1.running_mean"] == 0).all()  # nothing was replayed yet
    fleet.learn(first.x, first.y, 8)  # the draw is all that is stored: the first batch
    layer = before["stable.weights.0.weight"], before["stable.weights.0.bias"]
    read = torch.einsum("kni,koi->kno", first.x, layer[0]) + layer[1].unsqueeze(1)
    expected = 0.1 * read.mean(1)
    torch.testing.assert_close(fleet.state["stable.buffers.1.running_mean"], expected)
    assert not torch.allclose(fleet.network.buffers["1.running_mean"], expected)

    module = normalised().double().eval()
    own = {
        part.split(".", 2)[2]: tensor[1]
        for part, tensor in fleet.state.items()
        if part.startswith("stable.")
    }
    torch.testing.assert_close(
        fleet.predict(first.x)[1], functional_call(module, own, (first.x[1],))
    )
