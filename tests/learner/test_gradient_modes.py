"""A learner learns within `no_grad` and `inference_mode`, in which a service may run."""

from __future__ import annotations

import copy

import pytest
import torch
from tests.learner.some_stream import batches, network, normalised

from recollect import ER, SGD, Learner, Method
from recollect.methods import CLSER, SCR

MODES = [torch.no_grad, torch.inference_mode]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("method", [SGD(), ER(), CLSER(), SCR()], ids=lambda m: m.title)
def test_it_learns_what_it_learns_elsewhere(mode: type[torch.no_grad], method: Method) -> None:
    memory = None if isinstance(method, SGD) else 10
    inside, outside = (Learner(network(1), method, memory=memory, lr=0.1) for _ in range(2))
    for x, y in batches(3):
        outside.observe(x, y)
        with mode():
            inside.observe(torch.tensor(x), y)  # a tensor that can be in no graph
            inside.predict(x)
    x, y = next(batches(1))
    assert inside.observe(x, y) == outside.observe(x, y)
    assert inside._packed() == outside._packed()


@pytest.mark.parametrize("mode", MODES)
def test_what_is_made_there_learns_elsewhere(mode: type[torch.no_grad]) -> None:
    x, y = next(batches(1))
    with mode():
        learner = Learner(normalised(1), ER(), memory=10, lr=0.1)
        learner.predict(x, ids=[*range(5)])
        learner.label([*range(5)], y)
        learner.resize(12)
        loaded = copy.deepcopy(learner)
    assert learner.observe(x, y) == loaded.observe(x, y)
    assert learner._packed() == loaded._packed()


def test_gradients_may_be_off_for_the_whole_process() -> None:
    x, y = next(batches(1))
    torch.set_grad_enabled(False)
    try:
        learner = Learner(network(1), ER(), lr=0.1)
        learner.observe(x, y)
        assert not torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)
    other = Learner(network(1), ER(), lr=0.1)
    other.observe(x, y)
    assert learner._packed() == other._packed()
