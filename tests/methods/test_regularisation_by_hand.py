"""Methods that hold weights or answers in place: one run of each, written out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate

import pytest
import torch
from tests.builders import fleet_of, learn_task, picked, task_examples
from torch import Tensor, nn
from torch.nn import functional

from recollect import MLP, Fleet, Method, ResNet18
from recollect.core.images import Images
from recollect.core.random import Purpose, bits, permute, uniform
from recollect.methods import EWC, OEWC, SI, LwF

SEED, LR, TASKS, LENGTH, BATCH, CLASSES = 7, 0.2, 3, 14, 4, 6
PER_TASK = CLASSES // TASKS
METHODS: list[Method] = [
    OEWC(0.8, 0.6), OEWC(1.5, 1.0), OEWC(2.0, 0.9, answers=3), EWC(0.7), EWC(1.1, answers=1),
    SI(0.9, 0.1), SI(2.0, 1.0), LwF(0.6, 1.7, 0.01), LwF(),
]  # fmt: skip


@dataclass
class Loop:
    """One run of a method on torch's own modules."""

    method: Method
    net: nn.Module
    task: int = 0
    notes: list[tuple[Tensor, Tensor]] = field(default_factory=list)  # (importance, weights)
    share: Tensor = field(default_factory=lambda: torch.zeros(()))
    start: Tensor = field(default_factory=lambda: torch.zeros(()))
    old: nn.Module | None = None

    def flat(self) -> Tensor:
        return torch.cat([p.detach().flatten() for p in self.net.parameters()])

    def gradient(self, loss: Tensor) -> Tensor:
        parts = torch.autograd.grad(loss, list(self.net.parameters()))
        return torch.cat([part.flatten() for part in parts])

    @torch.no_grad()
    def move(self, step: Tensor) -> None:
        first = 0
        for parameter in self.net.parameters():
            parameter.add_(step[first : first + parameter.numel()].view_as(parameter))
            first += parameter.numel()

    def begin(self, x: Tensor, y: Tensor) -> None:
        self.share, self.start = torch.zeros_like(self.flat()), self.flat()
        if isinstance(self.method, LwF) and self.task:
            self.warm_up(x, y)

    def warm_up(self, x: Tensor, y: Tensor) -> None:
        key = bits(torch.tensor(SEED), Purpose.WARM, self.task)
        order = permute(key, torch.arange(len(y)), len(y))
        head = [p for n, p in self.net.named_parameters() if n.startswith("head")]
        new = self.classes(self.task)
        for some in torch.split(order, BATCH):
            loss = functional.cross_entropy(self.net(x[some])[:, new], y[some] - new.start)
            with torch.no_grad():
                for parameter, slope in zip(head, torch.autograd.grad(loss, head), strict=True):
                    parameter.sub_(LR * slope)

    def classes(self, task: int) -> slice:
        return slice(task * PER_TASK, (task + 1) * PER_TASK)

    def observe(self, x: Tensor, y: Tensor) -> None:
        if isinstance(self.method, LwF):
            return self.distil(self.method, x, y)
        weights = torch.cat([p.flatten() for p in self.net.parameters()])
        slope = self.gradient(functional.cross_entropy(self.net(x), y))
        penalty = sum(
            ((importance * (weights - there).square()).sum() for importance, there in self.notes),
            start=torch.zeros((), dtype=torch.float64),
        )
        weight = self.method.c if isinstance(self.method, SI) else self.method.lambda_  # type: ignore[attr-defined]
        step = -LR * (slope + (self.gradient(weight * penalty) if self.notes else 0))
        self.share = self.share - slope * step
        return self.move(step)

    def distil(self, method: LwF, x: Tensor, y: Tensor) -> None:
        now, known = self.classes(self.task), slice(0, self.task * PER_TASK)
        logits = self.net(x)
        loss = functional.cross_entropy(logits[:, now], y - now.start)
        if self.old is not None:
            before = (self.old(x).detach()[:, known] / method.T).softmax(1)
            after = (logits[:, known] / method.T).log_softmax(1)
            loss = loss - method.alpha * (before * after).sum(1).mean()
        loss = loss + method.wd * sum(p.square().sum() for p in self.net.parameters())
        self.move(-LR * self.gradient(loss))

    def fisher(self, x: Tensor, answers: int) -> Tensor:
        """The mean over examples of squared gradients, weighed by the answers' probabilities."""
        total = torch.zeros_like(self.flat())
        for place, one in enumerate(x):
            chances = self.net(one[None])[0].softmax(0).tolist()
            asked = list(enumerate(chances))
            if answers < CLASSES:
                words = [bits(torch.tensor(SEED), Purpose.ANSWER, self.task, place, number)
                         for number in range(answers)]  # fmt: skip
                marks = [float(uniform(word)) for word in words]
                ends = list(accumulate(chances))
                asked = [(sum(end <= mark for end in ends), 1 / answers) for mark in marks]
            for answer, weight in asked:
                slope = self.gradient(self.net(one[None])[0].log_softmax(0)[answer])
                total += weight * slope.square() / len(x)
        return total

    def end(self, x: Tensor, y: Tensor) -> None:
        method, here = self.method, self.flat()
        if isinstance(method, OEWC | EWC):
            squares = self.fisher(x, method.answers)
            if isinstance(method, EWC):
                self.notes.append((squares, here))
            else:
                before = method.gamma * self.notes[0][0] if self.notes else 0
                self.notes = [(squares + before, here)]
        if isinstance(method, SI):
            earned = self.share.clamp(min=0) / ((here - self.start).square() + method.xi)
            self.notes = [(earned + (self.notes[0][0] if self.notes else 0), here)]
        if isinstance(method, LwF):
            self.old = MLP(6, CLASSES, hidden=(5, 4)).double()
            self.old.load_state_dict(self.net.state_dict())
        self.task += 1


def network() -> MLP:
    return MLP(6, CLASSES, hidden=(5, 4))


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_a_run_is_its_equations_written_out(method: Method) -> None:
    """Three tasks of new classes, with a ragged last batch each; every weight after every step."""
    torch.manual_seed(SEED)
    loop = Loop(method, network().double())
    fleet = fleet_of([method], network, seeds=[SEED], lr=[LR], classes=CLASSES, tasks=TASKS)
    x, y = task_examples(TASKS, LENGTH, CLASSES)
    for task in range(TASKS):
        pick = picked(x[:, task], y[:, task])
        fleet.start_task(pick, LENGTH, BATCH)
        loop.begin(x[0, task], y[0, task])
        for first in range(0, LENGTH, BATCH):
            part_x, part_y = (t[:, task, first : first + BATCH] for t in (x, y))
            fleet.learn(part_x, part_y, BATCH)
            loop.observe(part_x[0], part_y[0])
            for name, parameter in loop.net.named_parameters():
                ours = fleet.weights.named()[name][0]
                torch.testing.assert_close(ours, parameter.detach(), rtol=0, atol=1e-10)
        fleet.end_task(pick, LENGTH, BATCH)
        fleet.next_task(LENGTH)
        loop.end(x[0, task], y[0, task])


@pytest.mark.parametrize("kind", [OEWC, EWC, SI, LwF])
def test_what_is_held_does_not_grow(kind: type[Method]) -> None:
    fleet = fleet_of([kind()], network, classes=CLASSES, tasks=TASKS)
    x, y = task_examples(TASKS, LENGTH, CLASSES)
    sizes = []
    for task in range(TASKS):
        learn_task(fleet, x[:, task], y[:, task], BATCH)
        sizes.append(sum(t.numel() * t.element_size() for t in fleet.tensors().values()))
    assert len(set(sizes)) == 1
    assert fleet.bytes_per_run > 0


@pytest.mark.parametrize("kind", [OEWC, EWC, SI, LwF])
def test_pictures_and_convolutions(kind: type[Method]) -> None:
    """ResNet-18 with normalisation: what is held is held, and all stays finite."""
    images = Images(mean=(0.5, 0.4, 0.3), std=(0.2, 0.25, 0.3), padding=2)
    fleet = Fleet(
        [kind(), kind()], partial(ResNet18, 4, width=8), seeds=[0, 1], lr=[0.05] * 2, classes=4,
        shape=(3, 8, 8), stored=torch.uint8, images=images, tasks=2,
    )  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    for task in range(2):
        x = torch.randint(256, (2, 18, 3, 8, 8), dtype=torch.uint8, generator=generator)
        y = torch.randint(2, (2, 18), generator=generator) + 2 * task
        loss = learn_task(fleet, x, y, 6)
        assert loss.isfinite().all()
    held = [t for n, t in fleet.state.items() if ".weights." in n]
    assert held
    assert all(t.isfinite().all() for t in held)
    assert any(t.any() for t in held)


def test_the_head_is_found_in_any_network() -> None:
    """The last dense layer, whatever its layout, and changed in place."""
    builds: list[Callable[[], nn.Module]] = [
        network, lambda: nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, CLASSES)),
    ]  # fmt: skip
    for build in builds:
        fleet = Fleet([LwF()], build, seeds=[0], lr=[0.1], classes=CLASSES, shape=(6,))
        weight, bias = fleet.model.head()
        assert bias is not None
        assert (weight.shape, bias.shape) == ((1, 4, CLASSES), (1, CLASSES))
        x = torch.rand(1, 3, 6)
        features, logits = fleet.model.features(x), fleet.logits(x)
        torch.testing.assert_close(torch.baddbmm(bias[:, None], features, weight), logits)
        bias.add_(1.0)
        torch.testing.assert_close(fleet.logits(x), logits + 1)
