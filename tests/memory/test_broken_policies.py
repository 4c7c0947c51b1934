"""A memory policy that is broken is refused when the memory is built, by its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from tests.core.networks import mlp
from torch import Tensor

from recollect import ER, InputError, Learner, Replay, Setup, Spec
from recollect.memory import Arrivals, Clock, Drawn, Reservoir
from recollect.train import Fleet


class NoDraws:
    capacity = 20
    uses_labels = False

    def sizes(self, clock: Clock, draws: int, replay: int) -> tuple[int, ...]:
        return (min(replay, clock.seen),) * draws

    def slots(self, arrivals: Arrivals) -> Tensor:
        return Reservoir(20).slots(arrivals)


class NoRunAxis(Reservoir):
    def slots(self, arrivals: Arrivals) -> Tensor:
        return super().slots(arrivals)[:, 0]


class FewDraws(Reservoir):
    def draws(self, arrivals: Arrivals, sizes: tuple[int, ...]) -> Drawn:
        return Drawn(super().draws(arrivals, sizes).slots[..., :1])


class BareDraws(Reservoir):
    def draws(self, arrivals: Arrivals, sizes: tuple[int, ...]) -> Drawn:
        return super().draws(arrivals, sizes).slots  # type: ignore[return-value]


class OneSize(Reservoir):
    def sizes(self, clock: Clock, draws: int, replay: int) -> tuple[int, ...]:
        return replay  # type: ignore[return-value]


class Floats(Reservoir):
    def slots(self, arrivals: Arrivals) -> Tensor:
        return super().slots(arrivals).float()


class TooLarge(Reservoir):
    def __init__(self, capacity: int) -> None:
        super().__init__(10 * capacity)


def method_with(policy: Callable[[int], object]) -> ER:
    @dataclass(frozen=True)
    class Broken(ER):
        name: ClassVar[str] = "broken"
        replay: ClassVar[Replay] = Replay(("x", "y"))

        def setup(self, spec: Spec) -> Setup:
            return Setup(policy=policy(spec.capacity))  # type: ignore[arg-type]

    return Broken()


def fleet_with(policy: Callable[[int], object]) -> Fleet:
    return Fleet(
        [method_with(policy)] * 2, mlp, seeds=[0, 1], lr=[0.1, 0.1], classes=3, shape=(9,),
        memory=20, replay=4,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (lambda capacity: NoDraws(), "the memory policy NoDraws has no steady, draws: it needs"),
        (NoRunAxis, r"NoRunAxis.slots returned slots of shape \[2, 3\], but expected is "
                    r"\[2, 2, 3\] or \[2, 2, 0\]"),
        (FewDraws, r"FewDraws.draws returned slots of shape \[2, 2, 1\], .* \[2, 2, 2\]"),
        (BareDraws, "BareDraws.draws must return a Drawn, not a Tensor"),
        (OneSize, "OneSize.sizes must return a tuple of integers, not 2"),
        (Floats, "Floats.slots must return slots as a tensor of torch.int64, not torch.float32"),
        (TooLarge, "TooLarge has a capacity of 200 examples, but the memory has only 20: create"),
    ],
)  # fmt: skip
def test_a_broken_policy_is_refused(policy: Callable[[int], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fleet_with(policy)


def test_a_learner_refuses_a_policy_without_all_members() -> None:
    with pytest.raises(InputError, match="NoDraws has no steady, draws"):
        Learner(mlp(), method_with(lambda capacity: NoDraws()), memory=20, lr=0.1)


def test_the_same_policy_unbroken_learns() -> None:
    fleet = fleet_with(Reservoir)
    loss = fleet.learn(torch.rand(2, 12, 9), torch.zeros(2, 12, dtype=torch.int64), batch=4)
    assert loss.isfinite().all()
