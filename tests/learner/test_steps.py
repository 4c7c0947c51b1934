"""What a learner does in a step: it is a plain loop, an equation, a fleet of one."""

from __future__ import annotations

import pytest
import torch
from tests.learner.some_stream import batches, network, normalised, weights
from torch import Tensor
from torch.nn import functional

from recollect import DER, ER, MLP, SGD, DERpp, Fleet, Learner, Method
from recollect.memory import Arrivals, Clock, Reservoir
from recollect.methods import GSS


def test_sgd_is_a_plain_torch_loop() -> None:
    module = network()
    learner = Learner(module, SGD(), lr=0.1, classes=[0, 1, 2])
    hand = network()
    optimiser = torch.optim.SGD(hand.parameters(), lr=0.1)
    for x, y in batches(30):
        loss = functional.cross_entropy(hand(torch.tensor(x).float()), torch.tensor(y))
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        assert learner.observe(x, y) == pytest.approx(loss.item(), rel=1e-5)
        for name, parameter in hand.named_parameters():
            torch.testing.assert_close(weights(learner)[name], parameter)


@pytest.mark.parametrize("make", [network, normalised], ids=["dense", "batch-norm"])
def test_derpp_is_its_equation(make: type) -> None:
    """The memory is filled by the first batches and kept whole, so what is drawn is known."""
    alpha, beta, capacity, replay, lr = 0.3, 0.7, 12, 4, 0.05
    learner = Learner(
        make(), DERpp(alpha, beta), memory=capacity, replay=replay, lr=lr, seed=9, classes=[0, 1, 2]
    )
    hand = make().train()
    policy = Reservoir(capacity)
    seed = torch.tensor([9])
    kept: dict[int, tuple[Tensor, int, Tensor]] = {}
    clock = Clock()
    for inputs, y in batches(25):
        x, labels = torch.tensor(inputs).float(), torch.tensor(y)
        now = hand(x)
        loss = functional.cross_entropy(now, labels)
        sizes = policy.sizes(clock, 2, replay)
        arrivals = Arrivals(seed, clock, 1, 5)
        drawn = policy.draws(arrivals, sizes).slots[0, 0]
        first, second = torch.split_with_sizes(drawn, list(sizes))
        if sizes[0]:
            examples = [kept[slot] for slot in first.tolist()]
            then = hand(torch.stack([example for example, _, _ in examples]))
            target = torch.stack([logits for _, _, logits in examples])
            loss = loss + alpha * functional.mse_loss(then, target)
            examples = [kept[slot] for slot in second.tolist()]
            also = hand(torch.stack([example for example, _, _ in examples]))
            wanted = torch.tensor([label for _, label, _ in examples])
            loss = loss + beta * functional.cross_entropy(also, wanted)
        for place, slot in enumerate(policy.slots(arrivals)[0, 0].tolist()):
            if slot < capacity:
                kept[slot] = (x[place], y[place], now[place].detach())
        parameters = list(hand.parameters())
        with torch.no_grad():
            for weight, slope in zip(
                parameters, torch.autograd.grad(loss, parameters), strict=True
            ):
                weight -= lr * slope
        clock = clock.after(1, 5)
        assert learner.observe(inputs, y) == pytest.approx(loss.item(), rel=1e-4)
    learned = learner.trained_module().state_dict()
    for name, tensor in hand.state_dict().items():
        torch.testing.assert_close(learned[name], tensor, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", [SGD(), ER(), DER(0.3), DERpp(0.3, 0.5), GSS()], ids=str)
def test_it_is_a_fleet_of_one(method: Method) -> None:
    torch.manual_seed(0)
    module = MLP(4, 3, hidden=(6,))
    learner = Learner(module, method, memory=12, replay=4, lr=0.05, seed=3, classes=[0, 1, 2])
    fleet = Fleet(
        [method], module, seeds=[3], lr=[0.05], classes=3, shape=(4,), memory=12, replay=4,
        compiled=False, numbers=[{"clip": 10.0}],
    )  # fmt: skip
    for x, y in batches(25):
        loss = learner.observe(x, y)
        inputs = torch.tensor(x).float().unsqueeze(0)
        assert float(fleet.learn(inputs, torch.tensor([y]), 5)) == loss
    learned = weights(learner)
    for name, tensor in fleet.weights.named().items():
        assert torch.equal(learned[name], tensor[0])
