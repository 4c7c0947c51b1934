"""Each method's loss and gradient against its equation, written for one run in plain autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from recollect import DER, ER, MLP, SGD, DERpp, Joint, Method
from recollect.core.losses import cross_entropy
from recollect.core.model import Model
from recollect.core.network import Network
from recollect.errors import InputError
from recollect.memory import Stored
from recollect.methods import Step, varying

SEEDS = [0, 1, 2]
ALPHAS, BETAS = [0.2, 0.0, 1.5], [0.7, 1.0, 0.0]
METHODS: dict[str, list[Method]] = {
    "sgd": [SGD() for _ in SEEDS],
    "joint": [Joint() for _ in SEEDS],
    "er": [ER() for _ in SEEDS],
    "der": [DER(alpha) for alpha in ALPHAS],
    "derpp": [DERpp(alpha, beta) for alpha, beta in zip(ALPHAS, BETAS, strict=True)],
}
EXAMPLES = 4


def model_of(network: Network) -> Model:
    return Model(network, network.weights, network.buffers, torch.ones(network.weights.runs))


class Saying:
    """Stands in for a model: whatever it is asked, the function answers."""

    network = SimpleNamespace(separate=False)
    criterion = staticmethod(cross_entropy)

    def __init__(self, forward: Callable[[Tensor, Sequence[int]], Tensor]) -> None:
        self.forward = forward

    def __call__(self, x: Tensor, parts: Sequence[int]) -> Tensor:
        return self.forward(x, parts)


def saying(forward: Callable[[Tensor, Sequence[int]], Tensor]) -> Model:
    return cast("Model", Saying(forward))


def equation(
    method: Method, net: nn.Module, x: Tensor, y: Tensor, first: Stored, second: Stored
) -> Tensor:
    """The loss of one run, as the paper has it; norms are divided by the number of classes."""
    stream = functional.cross_entropy(net(x), y)
    if isinstance(method, SGD | Joint):
        return stream
    if isinstance(method, ER):
        both = [*zip(x, y, strict=True), *zip(first.x, first.y, strict=True)]
        terms = [-net(one[None])[0].log_softmax(0)[label] for one, label in both]
        return torch.stack(terms).sum() / len(both)
    assert isinstance(method, DER | DERpp)
    if len(first.x) == 0:
        return stream
    norms = [
        (z - net(one[None])[0]).norm() ** 2 for one, z in zip(first.x, first.logits, strict=True)
    ]
    loss = stream + method.alpha * torch.stack(norms).mean() / 3
    if isinstance(method, DERpp):
        loss = loss + method.beta * functional.cross_entropy(net(second.x), second.y)
    return loss


def remembered(runs: int, n: int, seed: int) -> Stored:
    generator = torch.Generator().manual_seed(seed)
    return Stored(
        x=torch.rand(runs, n, 6, dtype=torch.float64, generator=generator),
        y=torch.randint(0, 3, (runs, n), generator=generator),
        logits=torch.randn(runs, n, 3, dtype=torch.float64, generator=generator),
    )


def row(past: Stored, run: int) -> Stored:
    return Stored({name: tensor[run] for name, tensor in past.items()})


def fleet_method(methods: list[Method]) -> Method:
    """One method with a value per run; of one run, with plain numbers."""
    if len(methods) == 1:
        return methods[0]
    columns = {
        name: torch.tensor([getattr(m, name) for m in methods], dtype=torch.float64)
        for name in varying(type(methods[0]))
    }
    return type(methods[0])(**columns)


@pytest.mark.parametrize("replayed", [0, 1, 5], ids=["empty memory", "one", "five"])
@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize("name", METHODS)
def test_loss_and_gradient_are_those_of_the_equation(
    name: str, runs: int, replayed: int, tiny_net: Callable[[], MLP]
) -> None:
    methods = METHODS[name][:runs]
    network = Network(tiny_net, SEEDS[:runs], dtype=torch.float64)
    arrived = remembered(runs, EXAMPLES, 0)
    past = [remembered(runs, replayed, 1), remembered(runs, replayed, 2)]
    step = Step(arrived.x, arrived.y, model_of(network), past)
    loss = fleet_method(methods).loss(step)
    assert loss.shape == (runs,)
    gradient = step.model.gradient(loss).dense().named()
    for k, method in enumerate(methods):
        torch.manual_seed(SEEDS[k])
        net = tiny_net().double()
        own = equation(method, net, arrived.x[k], arrived.y[k], row(past[0], k), row(past[1], k))
        torch.testing.assert_close(loss[k], own, rtol=1e-10, atol=1e-12)
        parts = torch.autograd.grad(own, list(net.parameters()))
        for (parameter, _), part in zip(net.named_parameters(), parts, strict=True):
            torch.testing.assert_close(gradient[parameter][k], part, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_asks_for_what_it_declares(name: str, tiny_net: Callable[[], MLP]) -> None:
    """As many draws, no field but its own, and what it stores is what the network said."""
    method = METHODS[name][0]
    network = Network(tiny_net, SEEDS[:1], dtype=torch.float64)
    replay = type(method).replay
    fields = replay.names if replay else ()
    draws = replay.draws if replay else 0
    past = [
        Stored({field: remembered(1, 5, draw)[field] for field in fields}) for draw in range(draws)
    ]
    arrived = remembered(1, EXAMPLES, 9)
    step = Step(arrived.x, arrived.y, model_of(network), past)
    method.loss(step)
    with pytest.raises(InputError, match="more often"):
        step.draw()
    noted = step.outcome.fields
    assert set(fields) == set(noted) | ({"x", "y"} & set(fields))
    assert bool(fields) == (draws > 0)
    if "logits" in fields:
        torch.testing.assert_close(noted["logits"], network(network.weights, arrived.x))
        assert not noted["logits"].requires_grad


def test_er_averages_once_over_stream_and_replays_together() -> None:
    """Four examples of loss log 3 and one replay of loss 0 make 4/5 log 3, not 1/2 log 3."""
    certain = torch.tensor([[[1000.0, 0.0, 0.0]]])
    past = Stored(x=certain, y=torch.zeros(1, 1, dtype=torch.int64))
    step = Step(torch.zeros(1, 4, 3), torch.zeros(1, 4).long(), saying(lambda x, parts: x), [past])
    torch.testing.assert_close(ER().loss(step), 0.8 * torch.tensor([3.0]).log())


def test_der_averages_the_distance_over_examples_and_classes() -> None:
    """Two replays, three classes, one difference of 6: a mean of 36 / 6."""
    past = Stored(x=torch.zeros(1, 2, 3), logits=torch.zeros(1, 2, 3))
    past.logits[0, 1, 2] = 6.0
    step = Step(torch.zeros(1, 4, 3), torch.zeros(1, 4).long(), saying(lambda x, parts: x), [past])
    expected = torch.tensor([3.0]).log() + 0.5 * 36 / 6
    torch.testing.assert_close(DER(alpha=0.5).loss(step), expected)


def test_one_pass_serves_all_parts() -> None:
    sizes: list[int] = []

    def forward(x: Tensor, parts: Sequence[int]) -> Tensor:
        sizes.append(x.shape[1])
        assert list(parts) == [2, 0, 1]
        return x

    step = Step(torch.zeros(1, 4, 3), torch.zeros(1, 4).long(), saying(forward), [])
    parts = step.net(torch.full((1, 2, 3), 1.0), torch.zeros(1, 0, 3), torch.full((1, 1, 3), 2.0))
    assert sizes == [3]
    assert [part.shape[1] for part in parts] == [2, 0, 1]
    assert [float(parts[0].sum()), float(parts[2].sum())] == [6.0, 6.0]
