"""Old declarations, unknown fields and state without a run axis are refused in a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from recollect import MLP, SGD, Fleet, InputError, Method, Replay, Setup, Spec, Step
from recollect.methods.method import RENAMED
from recollect.train.fingerprint import network_fingerprint


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


def test_an_unknown_field_is_to_be_declared() -> None:
    kind = type("Odd", (Plain,), {"replay": Replay(("x", "wieght"))})
    with pytest.raises(InputError, match=r"declare 'wieght' as Field\('wieght', shape, dtype\)"):
        fleet_of(kind(), memory=5, replay=2)


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
    one, same, other = (network_fingerprint(lambda s=s: Scaled(s)) for s in (1.0, 1.0, 3.0))  # type: ignore[misc]
    assert one == same != other
