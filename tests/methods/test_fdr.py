"""FDR's options on images and a network with batch normalisation, against a loop by hand."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from recollect import Fleet
from recollect.core.images import Images
from recollect.core.random import Purpose, below, bits, permute
from recollect.methods import FDR
from recollect.testing import check_method

SEED, LR, BATCH, CAPACITY, REPLAY, TASKS, COUNT = 11, 0.1, 4, 10, 5, 3, 22
IMAGES = Images(mean=(0.4,), std=(0.3,), padding=1)
OPTIONS = [(0, 0), (1, 0), (0, 1), (1, 1)]


def network() -> nn.Module:
    convolution = [nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU()]
    return nn.Sequential(*convolution, nn.Flatten(), nn.Linear(27, 6))


def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(SEED)
    x = torch.randint(256, (TASKS, COUNT, 1, 5, 5), dtype=torch.uint8, generator=generator)
    y = torch.randint(2, (TASKS, COUNT), generator=generator) + 2 * torch.arange(TASKS)[:, None]
    return x, y


def plain(x: Tensor) -> Tensor:
    return (x.double() / 255 - 0.4) / 0.3


def augmented(x: Tensor, purpose: Purpose, step: int, first: int) -> Tensor:
    """Every image shifted by up to one pixel, and flipped half of the time, one by one."""
    seen = []
    for row, image in enumerate(x, first):
        view = int(below(bits(torch.tensor(SEED), purpose, step, row), 3 * 3 * 2))
        down, right, flip = view % 3, view // 3 % 3, view // 9
        cut = functional.pad(image, [1] * 4)[:, down : down + 5, right : right + 5]
        seen.append(cut.flip(2) if flip else cut)
    return plain(torch.stack(seen))


class Loop:
    """One run, written out; what is drawn at random is what the library draws."""

    def __init__(self, method: FDR) -> None:
        torch.manual_seed(SEED)
        self.method, self.net = method, network().double()
        self.stored: list[list[tuple[Tensor, Tensor]]] = []
        self.step = 0

    def descend(self, loss: Tensor) -> None:
        parameters = list(self.net.parameters())
        with torch.no_grad():
            for parameter, slope in zip(
                parameters, torch.autograd.grad(loss, parameters), strict=True
            ):
                parameter.sub_(LR * slope)

    def distance(self, first: int) -> Tensor:
        rows = [row for share in self.stored for row in share]
        key = bits(torch.tensor(SEED), Purpose.DRAW, self.step, 0)
        places = permute(key, torch.arange(min(REPLAY, len(rows))), len(rows)).tolist()
        x, then = (torch.stack([rows[place][part] for place in places]) for part in (0, 1))
        now = self.net(augmented(x, Purpose.VIEW, self.step, first))
        apart = torch.linalg.vector_norm(now.softmax(1) - then.softmax(1), dim=1)
        weighed: Tensor = self.method.alpha * apart.mean()
        return weighed

    def observe(self, x: Tensor, y: Tensor) -> None:
        logits = self.net(augmented(x, Purpose.VIEW, self.step, 0))
        loss = functional.cross_entropy(logits, y)
        if self.stored and self.method.two_steps:
            self.descend(loss)
            self.descend(self.distance(len(x)))
        else:
            self.descend(loss + self.distance(len(x)) if self.stored else loss)
        self.step += 1

    @torch.no_grad()
    def end_task(self, x: Tensor) -> None:
        task = len(self.stored)
        share = CAPACITY // (task + 1)
        key = bits(torch.tensor(SEED), Purpose.KEEP, task)
        order = permute(key, torch.arange(COUNT), COUNT)
        self.stored = [rows[:share] for rows in self.stored]
        if self.method.training_mode:
            self.stored.append(self.in_training_mode(x[order], share))
            return
        still = deepcopy(self.net).eval()
        self.stored.append([(x[n], still(plain(x[n : n + 1]))[0]) for n in order[:share].tolist()])

    def in_training_mode(self, x: Tensor, share: int) -> list[tuple[Tensor, Tensor]]:
        """Whole batches, until one begins behind the share; that one is read and not stored."""
        rows: list[tuple[Tensor, Tensor]] = []
        for first in range(0, COUNT, BATCH):
            part = x[first : first + BATCH]
            logits = self.net(augmented(part, Purpose.RECORD, self.step, first))
            rows += zip(part, logits, strict=True)
            if first > share:
                break
        return rows[:share]


@pytest.mark.parametrize(("two_steps", "training_mode"), OPTIONS)
def test_a_run_is_the_loop_by_hand(two_steps: int, training_mode: int) -> None:
    """Weights, running statistics and stored logits, through three tasks of two epochs."""
    method = FDR(0.7, two_steps, training_mode)
    fleet = Fleet(
        [method], network, seeds=[SEED], lr=[LR], classes=6, shape=(1, 5, 5), memory=CAPACITY,
        replay=REPLAY, stored=torch.uint8, images=IMAGES, dtype=torch.float64, tasks=TASKS,
    )  # fmt: skip
    loop = Loop(method)
    for x, y in zip(*data(), strict=True):
        for _ in range(2):
            fleet.learn(x[None], y[None], BATCH)
            for first in range(0, COUNT, BATCH):
                loop.observe(x[first : first + BATCH], y[first : first + BATCH])

        def looked_up(index: Tensor, x: Tensor = x, y: Tensor = y) -> tuple[Tensor, Tensor]:
            return x[index], y[index]

        fleet.end_task(looked_up, COUNT, BATCH)
        fleet.next_task(COUNT)
        loop.end_task(x)
        ours = {**fleet.weights.named(), **fleet.network.buffers}
        for name, expected in loop.net.state_dict().items():
            torch.testing.assert_close(ours[name][0], expected, rtol=0, atol=1e-9)
        stored = [row for share in loop.stored for row in share]
        memory = fleet.memory.fields()
        assert torch.equal(memory["x"][0, : len(stored)], torch.stack([x for x, _ in stored]))
        torch.testing.assert_close(
            memory["logits"][0, : len(stored)], torch.stack([z for _, z in stored]), rtol=0,
            atol=1e-9,
        )  # fmt: skip


def test_every_option_makes_a_difference() -> None:
    x, y = data()
    ends = []
    for options in OPTIONS:
        loop = Loop(FDR(0.7, *options))
        for task in range(2):
            loop.observe(x[task, :BATCH], y[task, :BATCH])
            loop.end_task(x[task])
        ends.append(torch.cat([t.flatten().double() for t in loop.net.state_dict().values()]))
    for one in range(len(ends)):
        for other in range(one):
            assert not torch.allclose(ends[one], ends[other], rtol=0, atol=1e-6)


@pytest.mark.parametrize("noisy", [False, True])
def test_logits_in_training_mode_are_those_of_the_run_alone(noisy: bool) -> None:
    """In a fleet, statistics, augmentations and what layers draw are each run's own."""

    def build() -> nn.Module:
        return nn.Sequential(network(), nn.Dropout(0.5)) if noisy else network()

    x, y = data()

    def stored(seeds: list[int]) -> dict[str, Tensor]:
        fleet = Fleet(
            [FDR(0.7, 1, 1)] * len(seeds), build, seeds=seeds, lr=[LR] * len(seeds), classes=6,
            shape=(1, 5, 5), memory=CAPACITY, replay=REPLAY, stored=torch.uint8, images=IMAGES,
            dtype=torch.float64,
        )  # fmt: skip
        fleet.end_task(lambda index: (x[0, index], y[0, index]), COUNT, BATCH)
        return {**fleet.memory.fields(), **fleet.network.buffers}

    before = torch.random.get_rng_state()
    together, alone = stored([3, SEED]), stored([SEED])
    assert torch.equal(torch.random.get_rng_state(), before)
    for name, tensor in alone.items():
        torch.testing.assert_close(together[name][1], tensor[0], rtol=0, atol=1e-9)
        assert name.endswith("tracked") or not torch.equal(together[name][0], tensor[0])


def test_it_conforms_with_its_options() -> None:
    check_method(FDR(two_steps=1, training_mode=1))
