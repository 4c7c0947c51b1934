"""Declarations that cannot be meant are refused in a sentence, where they are made."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from recollect import MLP, SGD, Field, Fleet, InputError, Method, Needs, Replay, Setup, Spec, Step
from recollect.core.weights import State
from recollect.methods import GSS
from recollect.methods.base import RENAMED
from recollect.train.fingerprint import NetworkFacts


@pytest.mark.parametrize("name", RENAMED)
def test_an_old_declaration_says_what_it_is_now(name: str) -> None:
    with pytest.raises(InputError, match=f"Old: `{name}` of recollect 0.1 is now"):
        type("Old", (Method,), {name: True})


@dataclass(frozen=True)
class Plain(Method):
    """SGD with a memory and a state that tests choose."""

    name: ClassVar[str] = "plain"
    title: ClassVar[str] = "Plain"

    def loss(self, step: Step) -> Tensor:
        return SGD().loss(step)


def fleet_of(method: Method, **sizes: Any) -> Fleet:
    return Fleet(
        [method] * 2, lambda: MLP(4, 3), seeds=[0, 1], lr=[0.1, 0.1], classes=3, shape=(4,), **sizes
    )


@pytest.mark.parametrize(
    ("declare", "sentence"),
    [
        (lambda: Replay(("x", "wieght")), r"declare 'wieght' as Field\('wieght', shape, dtype\)"),
        (lambda: Replay(("x", 7)), r"declare 7 as Field"),  # type: ignore[arg-type]
        (lambda: Replay(()), "pass a tuple of the fields to store"),
        (lambda: Replay("x"), "the fields of a replay are 'x'"),  # type: ignore[arg-type]
        (lambda: Replay(("x", "y", "y")), "has a field twice"),
        (lambda: Replay(("x",), draws=-1), "`draws` is -1: it must be a whole number of at"),
        (lambda: Field("weight", 3), "a field needs a name, a tuple of sizes"),  # type: ignore[arg-type]
        (lambda: Field("valid", ()), "the field name 'valid' is reserved: choose another name"),
        (lambda: Needs(grows=1), "`grows` of Needs is 1: it must be True or"),  # type: ignore[arg-type]
        (lambda: Needs(batch_size=0), "`batch_size` of Needs is 0: it must be a whole number"),
        (
            lambda: type("Odd", (Plain,), {"needs": True}),
            r"`needs` of Odd is True: it must be a recollect.N",
        ),
        (lambda: type("Odd", (Plain,), {"replay": ("x",)}), r"is \('x',\): it must be a recollect"),
    ],
)
def test_a_declaration_that_cannot_be_meant_is_refused(
    declare: Callable[[], object], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        declare()


@pytest.mark.parametrize("value", [1.5, "2", math.inf])
def test_a_static_hyper_parameter_is_a_whole_number(value: Any) -> None:
    message = f"nb of GSS must be a whole number of at least 1, not {value!r}"
    with pytest.raises(InputError, match=message):
        GSS(nb=value)
    with pytest.raises(InputError, match=r"nb of GSS must be a whole number, not 2\.0"):
        fleet_of(GSS(nb=2.0), memory=5, replay=2)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["weight", "x", "y"])
@pytest.mark.parametrize("stores", [True, False])
def test_only_declared_fields_are_remembered(name: str, stores: bool) -> None:
    def loss(self: Method, step: Step) -> Tensor:
        step.remember(**{name: step.y})
        return SGD().loss(step)

    kind = type("Odd", (Plain,), {"loss": loss, "replay": Replay(("x", "y")) if stores else None})
    fleet = fleet_of(kind(), memory=5, replay=2)
    before = {n: t.clone() for n, t in fleet.tensors().items()}
    with pytest.raises(InputError, match=f"step.remember got '{name}', which is not a field"):
        fleet.learn(torch.rand(2, 4, 4), torch.zeros(2, 4, dtype=torch.int64), batch=4)
    assert all(torch.equal(t, before[n]) for n, t in fleet.tensors().items())


def test_state_is_changed_in_place() -> None:
    state = State({"n": torch.zeros(2)})
    for name, sentence in (("n", r"write state\['n'\].copy_"), ("m", "there is no state 'm'")):
        with pytest.raises(InputError, match=sentence):
            state[name] = torch.ones(2)
        with pytest.raises(InputError, match="state has no attributes"):
            setattr(state, name, torch.ones(2))
    state["n"] += 1
    assert state["n"].tolist() == copy.deepcopy(state)["n"].tolist() == [1, 1]


@pytest.mark.parametrize("shape", [(), (7,), (1, 2)])
def test_state_has_a_run_axis(shape: tuple[int, ...]) -> None:
    def setup(self: Method, spec: Spec) -> Setup:
        return Setup(state=lambda model: {"n": torch.zeros(shape)})

    kind = type("Odd", (Plain,), {"setup": setup})
    with pytest.raises(InputError, match=r"the state 'n' of Plain has the shape .* for 2 runs"):
        fleet_of(kind())


class Scaled(nn.Module):
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale
        self.net = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.net(x) * self.scale
        return out


def test_plain_attributes_tell_networks_apart() -> None:
    one, same, other = (NetworkFacts.of(lambda s=s: Scaled(s)).fingerprint for s in (1.0, 1.0, 3.0))  # type: ignore[misc]
    assert one == same != other
