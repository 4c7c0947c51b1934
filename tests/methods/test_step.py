"""What a method can do in a step: store any field, rewrite it, augment again, draw numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import pytest
import torch
from tests import builders
from tests.builders import assert_close, close
from torch import Tensor, nn

from recollect import MLP, Field, Fleet, InputError, Method, Replay, Setup, Spec, Step
from recollect.core.images import Images
from recollect.core.random import Purpose, bits, uniform
from recollect.memory import Arrivals, ClassRing, Clock, Policy, Reservoir

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
        fleet.learn(x, y, BATCH)
        before = {name: tensor.clone() for name, tensor in fleet.tensors().items()}
        assert fleet.guard is not None
        fleet.guard.note()
        fleet.learn(x[:, :BATCH], y[:, :BATCH], BATCH)
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

        with pytest.raises(InputError, match="the memory has no field 'colour' to rewrite"):
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


SEEN: list[dict[str, Tensor]] = []


@dataclass(frozen=True)
class Viewing(Method):
    """Notes augmentations of the batch and of a draw, and random numbers."""

    name: ClassVar[str] = "viewing"
    title: ClassVar[str] = "Viewing"
    replay: ClassVar[Replay] = Replay(("x", "y"))

    def loss(self, step: Step) -> Tensor:
        first, past = step.random(2), step.draw()
        found = {"random": first, "more": step.random(2), "x": step.x, "drawn": past.x}
        found |= {"plain x": step.plain(), "plain drawn": step.plain(past)}
        found |= {"view x": step.view(), "view drawn": step.view(past), "again": step.view(past)}
        SEEN.append({name: tensor.clone() for name, tensor in found.items()})
        now, _ = step.net(step.x, past.x)
        return step.criterion(now, step.y)


@dataclass(frozen=True)
class Using(Method):
    """Learns from further views of a batch and of a draw, weighed by random numbers."""

    views: int = 1

    name: ClassVar[str] = "using"
    title: ClassVar[str] = "Using"
    replay: ClassVar[Replay] = Replay(("x", "y"))

    def loss(self, step: Step) -> Tensor:
        past = step.draw()
        x, again = (step.view(), step.view(past)) if self.views else (step.x, past.x)
        now, then = step.net(x, again)
        weight = step.random(1).squeeze(2)
        each = weight * step.model.criterion.each(now, step.y)
        return each.mean(1) + step.criterion(then, past.y)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


IMAGES = Images(mean=(0.4,), std=(0.3,), padding=2)


def viewed(seeds: list[int], steps: int = 6, **changes: Any) -> list[dict[str, Tensor]]:
    SEEN.clear()
    generator = torch.Generator().manual_seed(3)
    one = torch.randint(1, 256, (1, steps * BATCH, 1, 5, 5), dtype=torch.uint8, generator=generator)
    fleet = fleet_of(
        Viewing(), seeds, shape=(1, 5, 5), stored=torch.uint8,
        **{"images": IMAGES, "memory": steps * BATCH, **changes, "dtype": torch.float64},
    )  # fmt: skip
    y = torch.zeros(len(seeds), steps * BATCH, dtype=torch.int64)
    fleet.learn(one.expand(len(seeds), *one.shape[1:]).contiguous(), y, BATCH)
    return list(SEEN)


@pytest.fixture
def images_net(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NETS, "mlp", partial(MLP, 25, CLASSES, hidden=(5,)))


@pytest.mark.usefixtures("images_net")
class TestViews:
    """Another augmentation is one of those that an image can have, drawn anew."""

    def test_a_view_is_another_augmentation_of_the_same_images(self) -> None:
        views = torch.arange(2 * 5 * 5)[None]
        for found in viewed(SEEDS)[1:]:
            for name in ("x", "drawn"):
                first, other = found[name], found[f"view {name}"]
                assert first.shape == other.shape
                assert not torch.equal(first, other)
                for image, plain in zip(other[0], found[f"plain {name}"][0], strict=True):
                    raw = ((plain * 0.3 + 0.4) * 255).round().to(torch.uint8)
                    every = IMAGES.augment(raw.expand(1, 50, 1, 5, 5), views, torch.float64)[0]
                    assert any(torch.equal(image, each) for each in every)
            assert not torch.equal(found["view drawn"], found["again"]), "anew with every call"

    def test_it_is_a_function_of_seed_and_step(self) -> None:
        first, second = viewed(SEEDS), viewed(SEEDS)
        for one, other in zip(first, second, strict=True):
            for name, tensor in one.items():
                assert torch.equal(tensor, other[name])
        apart = viewed([seed + 1 for seed in SEEDS])
        assert not torch.equal(first[2]["view x"], apart[2]["view x"])
        numbers = [found["random"] for found in first]
        assert len({float(each[0, 0, 0]) for each in numbers}) == len(numbers), "other steps"

    def test_a_run_of_a_fleet_sees_what_it_sees_alone(self) -> None:
        together = viewed(SEEDS)
        for run, seed in enumerate(SEEDS):
            for ours, theirs in zip(together, viewed([seed]), strict=True):
                for name, tensor in theirs.items():
                    assert torch.equal(ours[name][run], tensor[0]), name

    def test_how_steps_are_carried_out_changes_nothing(self, way: dict[str, bool]) -> None:
        x = torch.randint(256, (3, LENGTH, 1, 5, 5), dtype=torch.uint8, generator=seeded(3))
        y = torch.randint(CLASSES, (3, LENGTH), generator=seeded(4))
        plain, fast, other = (
            fleet_of(
                method, SEEDS, "mlp", shape=(1, 5, 5), stored=torch.uint8, images=IMAGES, **how
            )
            for method, how in ((Using(), {}), (Using(), way), (Using(0), {}))
        )
        for fleet in (plain, fast, other):
            fleet.learn(x, y, BATCH)
        assert_close(fast, plain)
        assert ("compiled" in fast.execution) == way.get("compiled", False)
        end, without = (fleet.weights.named()["head.weight"] for fleet in (plain, other))
        assert not torch.allclose(end, without), "what is used makes a difference"

    def test_without_augmentation_a_view_is_the_example(self) -> None:
        for found in viewed(SEEDS, images=None):
            for name in ("x", "drawn"):
                assert torch.equal(found[f"view {name}"], found[name])
                assert torch.equal(found[f"plain {name}"], found[name])

    def test_random_numbers_are_those_of_seed_step_and_index(self) -> None:
        index = torch.arange(2 * BATCH).view(BATCH, 2)
        seeds = torch.tensor(SEEDS)[:, None, None]
        for step, found in enumerate(viewed(SEEDS)):
            first = uniform(bits(seeds, Purpose.RANDOM, step, index))
            assert torch.equal(found["random"], first)
            more = uniform(bits(seeds, Purpose.RANDOM, step, index + 2 * BATCH))
            assert torch.equal(found["more"], more)
            assert not torch.equal(found["random"], found["more"])
            assert found["random"].shape == (3, BATCH, 2)
