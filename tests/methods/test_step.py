"""What a method can do with memory in a step: store any field, and rewrite it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import pytest
import torch
from tests import builders
from tests.builders import close
from torch import Tensor, nn

from recollect import MLP, Field, Fleet, InputError, Method, Replay, Setup, Spec, Step
from recollect.memory import Arrivals, ClassRing, Clock, Policy, Reservoir

pytestmark = pytest.mark.usefixtures("unchecked_steps")

SEEDS, CAPACITY, REPLAY, BATCH, CLASSES, LENGTH = [7, 0, 2**40], 9, 5, 4, 3, 70
GARBAGE = -1000


@dataclass(frozen=True)
class Counting(Method):
    """ER with two draws: the first adds 1 to what is stored of an example, the second adds 10.

    What only fills the shape of a draw is given garbage, which must not be written.
    """

    by_class: int = 0

    name: ClassVar[str] = "counting"
    title: ClassVar[str] = "Counting"
    replay: ClassVar[Replay] = Replay(("x", "y", Field("times", (), torch.int64)), draws=2)

    def setup(self, spec: Spec) -> Setup:
        return Setup(policy=ClassRing(spec.capacity) if self.by_class else None)

    def loss(self, step: Step) -> Tensor:
        first, second = step.draw(), step.draw()
        now, then, also = step.net(step.x, first.x, second.x)
        step.remember(times=torch.zeros_like(step.y))
        for draw, more in ((first, 1), (second, 10)):
            times = draw.times + more
            if self.by_class:
                times = torch.where(draw.valid, times, GARBAGE)
            step.rewrite(draw, times=times)
        return step.criterion(now, step.y) + 0.01 * (then + also).square().sum((1, 2))


def normalised() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, CLASSES))


NETS: dict[str, Callable[[], nn.Module]] = {
    "mlp": partial(MLP, 6, CLASSES, hidden=(5,)),
    "normalised": normalised,
}


def data(seeds: list[int]) -> tuple[Tensor, Tensor]:
    """One class alone, so that a share for every class is not filled, and then all."""
    x, y = [], []
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        x.append(torch.rand(LENGTH, 6, dtype=torch.float64, generator=generator))
        y.append(torch.randint(CLASSES, (LENGTH,), generator=generator))
        y[-1][: LENGTH // 2] = 1
    return torch.stack(x), torch.stack(y)


def fleet_of(method: Method, seeds: list[int], net: str = "mlp", **changes: Any) -> Fleet:
    usual = {"memory": CAPACITY, "replay": REPLAY, "seeds": seeds}
    return builders.fleet_of([method] * len(seeds), NETS[net], **{**usual, **changes})


class TestRewrite:
    """Fields of drawn examples are replaced where they are stored."""

    @pytest.mark.parametrize("by_class", [0, 1])
    def test_it_is_the_loop_that_anyone_would_write(self, by_class: int) -> None:
        seed = SEEDS[0]
        fleet, (x, y) = fleet_of(Counting(by_class), [seed]), data([seed])
        policy: Policy = ClassRing(CAPACITY) if by_class else Reservoir(CAPACITY)
        times, clock = [0] * CAPACITY, Clock()
        counts = torch.zeros(1, CLASSES, dtype=torch.int64)
        overwritten = padded = twice = 0
        for start in range(0, LENGTH, BATCH):
            labels = y[:, start : start + BATCH]
            size = labels.shape[1]
            arrivals = Arrivals(torch.tensor([seed]), clock, 1, size, (labels[None], counts))
            sizes = policy.sizes(clock, 2, REPLAY)
            drawn, valid = policy.draws(arrivals, sizes)
            real = torch.ones_like(drawn, dtype=torch.bool) if valid is None else valid
            before = list(times)
            parts = [part[0, 0].split(list(sizes)) for part in (drawn, real)]  # type: ignore[no-untyped-call]
            met: list[int] = []
            for slots, fits, more in zip(*parts, (1, 10), strict=True):
                for slot, fit in zip(slots.tolist(), fits.tolist(), strict=True):
                    padded += not fit
                    if fit:
                        twice += slot in met
                        met.append(slot)
                        times[slot] = before[slot] + more
            for slot in policy.slots(arrivals)[0, 0].tolist():
                if slot < CAPACITY:
                    overwritten += slot in met
                    times[slot] = 0
            fleet.learn(x[:, start : start + BATCH], labels, BATCH)
            assert fleet.memory.fields().times[0].tolist() == times
            clock = clock.after(1, size)
            counts += labels[0].bincount(minlength=CLASSES)
        assert overwritten, "a batch came to where an example had been rewritten"
        assert twice, "an example was in both draws"
        assert max(times) > 10
        assert bool(padded) == bool(by_class)

    @pytest.mark.parametrize("by_class", [0, 1])
    @pytest.mark.parametrize("net", NETS)
    def test_a_run_of_a_fleet_is_the_run_alone(self, net: str, by_class: int) -> None:
        together = fleet_of(Counting(by_class), SEEDS, net)
        together.learn(*data(SEEDS), BATCH)
        rewritten = together.memory.fields()
        for run, seed in enumerate(SEEDS):
            alone = fleet_of(Counting(by_class), [seed], net)
            alone.learn(*data([seed]), BATCH)
            for name, tensor in alone.memory.fields().items():
                assert torch.equal(rewritten[name][run], tensor[0])
        assert not torch.equal(rewritten.times[0], rewritten.times[1])

    @pytest.mark.parametrize("by_class", [0, 1])
    def test_how_steps_are_carried_out_changes_nothing(
        self, by_class: int, way: dict[str, bool]
    ) -> None:
        plain, fast = (fleet_of(Counting(by_class), SEEDS, "mlp", **how) for how in ({}, way))
        for fleet in (plain, fast):
            fleet.learn(*data(SEEDS), BATCH)
        assert ("compiled" in fast.execution) == way.get("compiled", False)
        for name, tensor in plain.memory.fields().items():
            assert torch.equal(fast.memory.fields()[name], tensor)
        for name, tensor in plain.weights.named().items():
            close(fast.weights.named()[name], tensor)

    def test_a_guard_takes_it_back(self) -> None:
        fleet, (x, y) = fleet_of(Counting(), SEEDS[:1], guarded=True), data(SEEDS[:1])
        for start in range(0, x.shape[1], BATCH):
            fleet.step(x[:, start : start + BATCH], y[:, start : start + BATCH])
        before = {name: tensor.clone() for name, tensor in fleet.tensors().items()}
        assert fleet.guard is not None
        fleet.guard.note()
        fleet.step(x[:, :BATCH], y[:, :BATCH])
        assert not torch.equal(fleet.memory.tensors["times"], before["memory.times"])
        fleet.guard.undo()
        rows = slice(0, CAPACITY)  # the spare row holds anything
        for name, tensor in fleet.tensors().items():
            here = rows if name.startswith("memory.") else slice(None)
            assert torch.equal(tensor[here], before[name][here]), name

    def test_what_is_not_stored_or_not_drawn_is_refused(self) -> None:
        @dataclass(frozen=True)
        class Unknown(Counting):
            def loss(self, step: Step) -> Tensor:
                step.rewrite(step.draw(), colour=step.y)
                raise AssertionError

        @dataclass(frozen=True)
        class Part(Counting):
            def loss(self, step: Step) -> Tensor:
                step.rewrite(step.draw().narrow(0, 0), times=step.y[:, :0])
                raise AssertionError

        with pytest.raises(InputError, match=r"step\.rewrite got 'colour', which is not a field"):
            fleet_of(Unknown(), [0]).learn(*data([0]), BATCH)
        with pytest.raises(InputError, match="this is not a draw of the step"):
            fleet_of(Part(), [0]).learn(*data([0]), BATCH)


DRAWN: list[dict[str, Tensor]] = []


@dataclass(frozen=True)
class Open(Method):
    """Stores fields of its own, of many shapes and types, made of x alone."""

    name: ClassVar[str] = "open"
    title: ClassVar[str] = "Open"
    replay: ClassVar[Replay] = Replay(
        (
            "x",
            Field("table", (2, 3)),
            Field("exact", (1,), torch.float64),
            Field("bytes", (4,), torch.uint8),
            Field("large", (), torch.bool),
        )
    )

    def loss(self, step: Step) -> Tensor:
        past = step.draw()
        DRAWN.append({name: tensor.clone() for name, tensor in past.items()})
        now, _ = step.net(step.x, past.x)
        step.remember(**made_of(step.x))
        return step.criterion(now, step.y)


def made_of(x: Tensor) -> dict[str, Tensor]:
    return {
        "table": x.view(*x.shape[:2], 2, 3).float(),
        "exact": x.sum(2, keepdim=True).double(),
        "bytes": (200 * x[..., :4]).to(torch.uint8),
        "large": x[..., 0] > 0.5,
    }


class TestFields:
    """A field of any shape and type is stored with its example, and replayed."""

    @pytest.mark.parametrize("net", NETS)
    def test_it_is_stored_and_replayed_with_its_example(self, net: str) -> None:
        DRAWN.clear()
        fleet = fleet_of(Open(), SEEDS, net)
        fleet.learn(*data(SEEDS), BATCH)
        stored = fleet.memory.fields()
        types = {name: (tuple(t.shape[2:]), t.dtype) for name, t in stored.items()}
        assert types == {
            "x": ((6,), torch.float64), "table": ((2, 3), torch.float32),
            "exact": ((1,), torch.float64), "bytes": ((4,), torch.uint8),
            "large": ((), torch.bool),
        }  # fmt: skip
        assert any(draw["x"].shape[1] == REPLAY for draw in DRAWN)
        for found in (stored, *DRAWN):
            for name, tensor in made_of(found["x"]).items():
                assert torch.equal(found[name], tensor)

    def test_it_is_counted_restored_and_the_same_in_a_fleet(self) -> None:
        together = fleet_of(Open(), SEEDS)
        together.learn(*data(SEEDS), BATCH)
        assert together.bytes_per_run == CAPACITY * (6 * 8 + 6 * 4 + 8 + 4 + 1)
        again = fleet_of(Open(), SEEDS)
        again.restore(together.tensors(), together.clock)
        for fleet in (together, again):
            fleet.learn(*data(SEEDS), BATCH)
        alone = fleet_of(Open(), SEEDS[1:2])
        for _ in range(2):
            alone.learn(*data(SEEDS[1:2]), BATCH)
        for name, tensor in together.memory.fields().items():
            assert torch.equal(again.memory.fields()[name], tensor)
            assert torch.equal(alone.memory.fields()[name][0], tensor[1])

    def test_one_that_is_not_given_is_asked_for(self) -> None:
        @dataclass(frozen=True)
        class Silent(Open):
            def loss(self, step: Step) -> Tensor:
                return step.criterion(step.net(step.x)[0], step.y)

        with pytest.raises(InputError, match=r"call step\.remember\(bytes=\.\.\., exact=\.\.\.,"):
            fleet_of(Silent(), [0]).learn(*data([0]), BATCH)
