"""The optimisers of torch, which do here what they do in a loop of one's own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.learner.some_stream import batch, network
from torch.nn import functional

from recollect import ER, MLP, SGD, DERpp, InputError, Learner
from recollect.core.torch_optimiser import torch_optimisers
from recollect.methods import AGEMR

OPTIONS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in sorted(torch_optimisers())),
    ("SGD", {"momentum": 0.9, "nesterov": True}),
    ("SGD", {"weight_decay": 0.1}),
    ("Adam", {"amsgrad": True, "betas": (0.8, 0.9)}),
    ("AdamW", {"weight_decay": 0.5, "foreach": True}),
    ("RMSprop", {"momentum": 0.5, "centered": True}),
    ("Rprop", {"etas": (0.4, 1.3)}),
]


@pytest.mark.parametrize(("name", "options"), OPTIONS, ids=str)
def test_an_optimiser_is_torchs(name: str, options: dict[str, Any]) -> None:
    learner = Learner(
        network(), SGD(), lr=0.01, optimiser=name, optimiser_options=options, classes=[0, 1, 2]
    )
    hand = network()
    optimiser = torch_optimisers()[name](hand.parameters(), lr=0.01, **options)  # type: ignore[call-arg]
    for step in range(20):
        x, y = batch(step)
        loss = functional.cross_entropy(hand(torch.tensor(x)), torch.tensor(y))
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        assert learner.observe(x, y) == pytest.approx(loss.item(), rel=1e-4)
    learned = learner.trained_module().state_dict()
    for key, tensor in hand.state_dict().items():
        torch.testing.assert_close(learned[key], tensor, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", sorted(torch_optimisers()))
def test_the_papers_network_gets_the_same_step(name: str) -> None:
    """Its gradients come as products of two matrices, and are multiplied first."""
    torch.manual_seed(0)
    module = MLP(4, 3, hidden=(6,))
    learner = Learner(module, SGD(), lr=0.01, optimiser=name, classes=[0, 1, 2])
    optimiser = torch_optimisers()[name](module.parameters(), lr=0.01)  # type: ignore[call-arg]
    assert learner.observe(*batch(0)) > 0
    learned = learner.trained_module().state_dict()
    x, y = batch(0)
    functional.cross_entropy(module(torch.tensor(x)), torch.tensor(y)).backward()  # type: ignore[no-untyped-call]
    optimiser.step()
    for key, tensor in module.state_dict().items():
        torch.testing.assert_close(learned[key], tensor, rtol=1e-4, atol=1e-5)


def test_names_do_not_depend_on_capitals() -> None:
    for name in ("adamw", "ADAMW", "AdamW"):
        Learner(network(), SGD(), optimiser=name).observe(*batch(0))


def test_an_optimiser_that_is_unknown_or_unfit() -> None:
    for name in ("adm", "LBFGS", "SparseAdam", "Optimizer"):
        with pytest.raises(InputError, match=f"unknown optimiser '{name}'"):
            Learner(network(), SGD(), optimiser=name).observe(*batch(0))


def test_options_that_the_optimiser_has_not() -> None:
    for options in ({"speed": 3}, {"betas": (2.0, 0.9)}):
        with pytest.raises(InputError, match="Adam does not accept these options"):
            Learner(network(), SGD(), optimiser="Adam", optimiser_options=options)


def test_the_options_are_copied() -> None:
    options = {"momentum": 0.9}
    learner = Learner(network(), SGD(), optimiser_options=options)
    options["momentum"] = 0.0
    assert learner._settings.optimising.names.options == {"momentum": 0.9}


@pytest.mark.parametrize(
    "method",
    [ER(), DERpp(), AGEMR()],
    ids=["er", "derpp", "agem-r"],
)
def test_one_observation_is_one_step_of_the_optimiser(method: Any) -> None:
    learner = Learner(network(), method, memory=20, optimiser="Adam", classes=[0, 1, 2])
    for step in range(7):
        learner.observe(*batch(step))
    assert learner._now.engine is not None
    state = learner._now.engine.fleet.tensors()
    assert {float(t) for name, t in state.items() if name.endswith(".step")} == {7.0}
