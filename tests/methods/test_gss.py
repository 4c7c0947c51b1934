"""GSS on augmented images: gradients are compared on the images as they came."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from recollect import MLP, Fleet
from recollect.core.images import Images
from recollect.methods import GSS, Step

pytestmark = pytest.mark.usefixtures("unchecked_steps")

SHAPE, CLASSES, CAPACITY = (3, 6, 6), 3, 8
IMAGES = Images(mean=(0.5, 0.4, 0.3), std=(0.2, 0.25, 0.3), padding=2)
SEEN: list[tuple[Tensor, Tensor, Tensor]] = []


@dataclass(frozen=True)
class Noting(GSS):
    """GSS that notes the batch, the batch and the last draw without augmentation."""

    def update(self, step: Step) -> Tensor:
        SEEN.append((step.x.clone(), step.plain(), step.plain(step.replays[-1])))
        return super().update(step)


def mlp() -> nn.Module:
    return MLP(108, CLASSES, hidden=(5,))


def convolutional() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, CLASSES))


@pytest.mark.parametrize("net", [mlp, convolutional])
def test_gradients_are_compared_on_plain_images(net: Callable[[], nn.Module]) -> None:
    SEEN.clear()
    generator = torch.manual_seed(3)
    x = torch.randint(256, (2, 40, *SHAPE), dtype=torch.uint8, generator=generator)
    y = torch.randint(CLASSES, (2, 40), generator=generator)
    fleet = Fleet(
        [Noting(gmbs=3)] * 2, net, seeds=[0, 1], lr=[0.05] * 2, classes=CLASSES, shape=SHAPE,
        memory=CAPACITY, replay=3, stored=torch.uint8, images=IMAGES, dtype=torch.float64,
    )  # fmt: skip
    fleet.learn(x, y, 4)
    stream = IMAGES.plain(x, torch.float64)
    lanes = len(SEEN) // 10  # one for the fleet, or one for each run
    for number, (augmented, plain, past) in enumerate(SEEN):
        step, lane = divmod(number, lanes)
        runs = slice(0, 2) if lanes == 1 else slice(lane, lane + 1)
        here = stream[runs, step * 4 : step * 4 + 4]
        assert torch.equal(plain, here)
        assert not torch.equal(augmented, here)
        for run, memories in zip(range(2)[runs], past, strict=True):
            before = stream[run, : step * 4]
            for memory in memories:
                assert (before == memory).flatten(1).all(1).any()
    assert SEEN[-1][2].shape[1] == 3
