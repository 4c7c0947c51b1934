"""Views of images and random numbers in a step: functions of seed and step, drawn anew."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import pytest
import torch
from tests import builders
from tests.builders import assert_close
from torch import Tensor

from recollect import MLP, Fleet, Method, Replay, Step
from recollect.core.images import Images
from recollect.core.random import Purpose, bits, uniform

pytestmark = pytest.mark.usefixtures("unchecked_steps")

SEEDS, BATCH, CLASSES, LENGTH = [7, 0, 2**40], 4, 3, 70
SHAPE, NETWORK = (1, 5, 5), partial(MLP, 25, CLASSES, hidden=(5,))


def fleet_of(method: Method, seeds: list[int], **changes: Any) -> Fleet:
    usual = {"memory": 9, "replay": 5, "seeds": seeds, "shape": SHAPE, "stored": torch.uint8}
    return builders.fleet_of([method] * len(seeds), NETWORK, **{**usual, **changes})


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

    views: int = 0

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
    usual = {"images": IMAGES, "memory": steps * BATCH, "dtype": torch.float64}
    fleet = fleet_of(Viewing(), seeds, **{**usual, **changes})
    y = torch.zeros(len(seeds), steps * BATCH, dtype=torch.int64)
    fleet.learn(one.expand(len(seeds), *one.shape[1:]).contiguous(), y, BATCH)
    return list(SEEN)


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
            fleet_of(method, SEEDS, images=IMAGES, **how)
            for method, how in ((Using(1), {}), (Using(1), way), (Using(), {}))
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
