"""Methods that do more than descend on a loss: one run of each, written out from its equations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate

import pytest
import torch
from scipy.optimize import nnls
from tests.builders import fleet_of, picked
from torch import Tensor, nn
from torch.nn import functional

from recollect import MLP, SGD, Method
from recollect.core.random import Purpose, below, bits, permute, uniform
from recollect.methods import AGEM, AGEMR, FDR, GEM, GSS, MER

SEED, LR, CAPACITY, REPLAY, TASKS, LENGTH = 7, 0.2, 8, 5, 3, 14
Examples = Callable[..., tuple[Tensor, Tensor]]
Row = tuple[Tensor, Tensor]


@dataclass
class Loop:
    """One run; its drawn numbers are the library's, what it does with them is written out."""

    method: Method
    net: nn.Module
    reservoir: list[Row] = field(default_factory=list)
    rings: list[list[Row]] = field(default_factory=lambda: [[]])
    seen: int = 0
    steps: int = 0
    turn: int = 0
    scores: list[float] = field(default_factory=list)
    projections: int = 0
    replaced: int = 0

    def loss(self, rows: list[Row]) -> Tensor:
        x, y = (torch.stack(column) for column in zip(*rows, strict=True))
        return functional.cross_entropy(self.net(x), y)

    def gradient(self, loss: Tensor) -> Tensor:
        parts = torch.autograd.grad(loss, list(self.net.parameters()))
        return torch.cat([part.flatten() for part in parts])

    @torch.no_grad()
    def move(self, direction: Tensor) -> None:
        start = 0
        for parameter in self.net.parameters():
            piece = direction[start : start + parameter.numel()]
            parameter.sub_(LR * piece.view_as(parameter))
            start += parameter.numel()

    def draw(self, rows: list[Row], which: int = 0, size: int = REPLAY) -> list[Row]:
        if not rows:
            return []
        key = bits(torch.tensor(SEED), Purpose.DRAW, self.steps, which)
        places = permute(key, torch.arange(min(size, len(rows))), len(rows))
        return [rows[place] for place in places.tolist()]

    def insert(self, row: Row) -> None:
        """Into the reservoir, and into this task's ring."""
        if isinstance(self.method, GSS):
            return
        if len(self.reservoir) < CAPACITY:
            self.reservoir.append(row)
        else:
            drawn = below(bits(torch.tensor(SEED), Purpose.SLOT, self.seen), self.seen + 1)
            if int(drawn) < CAPACITY:
                self.reservoir[int(drawn)] = row
        self.seen += 1
        share, ring = CAPACITY // TASKS, self.rings[-1]
        if len(ring) < share:
            ring.append(row)
        else:
            ring[self.turn % share] = row
        self.turn += 1

    def observe(self, batch: list[Row]) -> None:
        getattr(self, type(self.method).__name__.lower())(batch)
        for row in batch:
            self.insert(row)
        self.steps += 1

    def agemr(self, batch: list[Row]) -> None:
        self.project(batch, self.draw(self.reservoir))

    def agem(self, batch: list[Row]) -> None:
        self.project(batch, self.draw([row for ring in self.rings[:-1] for row in ring]))

    def gem(self, batch: list[Row]) -> None:
        """v >= gamma that minimises |g + G'v|, by least squares in u = v - gamma >= 0."""
        method = self.method
        assert isinstance(method, GEM)
        g = self.gradient(self.loss(batch))
        past = [self.gradient(self.loss(ring)) for ring in self.rings[:-1]]
        if any(g @ r < 0 for r in past):
            self.projections += 1
            columns, least = (
                torch.stack(past, 1),
                torch.full((len(past),), float(method.gamma)).double(),
            )
            start, ridge = g + columns @ least, method.ridge**0.5
            above = nnls(
                torch.cat([columns, ridge * torch.eye(len(past)).double()]).numpy(),
                -torch.cat([start, ridge * least]).numpy(),
            )[0]
            g = start + columns @ torch.from_numpy(above)
        self.move(g)

    def project(self, batch: list[Row], past: list[Row]) -> None:
        g = self.gradient(self.loss(batch))
        if past:
            r = self.gradient(self.loss(past))
            if g @ r < 0:
                g = g - (g @ r) / (r @ r) * r
        self.move(g)

    def mer(self, batch: list[Row]) -> None:
        method = self.method
        assert isinstance(method, MER)
        start = self.flat()
        for inner in range(method.nb):
            before = self.flat()
            rows = [*self.draw(self.reservoir, inner), *batch]
            for first in range(0, len(rows), method.inner):
                self.move(self.gradient(self.loss(rows[first : first + method.inner])))
            self.put(before + method.beta * (self.flat() - before))
        self.put(start + method.gamma * (self.flat() - start))

    def fdr(self, batch: list[Row]) -> None:
        method = self.method
        assert isinstance(method, FDR)
        loss = self.loss(batch)
        past = self.draw([row for share in self.rings[:-1] for row in share])
        if past:
            if method.two_steps:
                self.move(self.gradient(loss))
                loss = torch.zeros(())
            x, then = (torch.stack(column) for column in zip(*past, strict=True))
            apart = self.net(x).softmax(1) - then.softmax(1)
            loss = loss + method.alpha * torch.linalg.vector_norm(apart, dim=1).mean()
        self.move(self.gradient(loss))

    def gss(self, batch: list[Row]) -> None:
        """What is replayed and compared was there before the batch; then the batch is placed."""
        method = self.method
        assert isinstance(method, GSS)
        past, number = self.draw(self.reservoir), min(method.gmbs, len(self.reservoir))
        self.move(self.gradient(self.loss([*batch, *past])))
        compared = self.draw(self.reservoir, 1, number)
        others = [self.gradient(self.loss([one])) for one in compared]

        def judged(rows: list[Row]) -> float:
            mine = self.gradient(self.loss(rows))
            alike = [float(functional.cosine_similarity(mine, other, 0)) for other in others]
            return max(alike) + 1 if alike else 0.1

        whole, scores = judged(batch), [judged([row]) for row in batch]
        for place, (row, score) in enumerate(zip(batch, scores, strict=True)):
            words = [
                bits(torch.tensor(SEED), Purpose.RANDOM, self.steps, 2 * place + n) for n in (0, 1)
            ]
            first, second = (float(uniform(word)) for word in words)
            allowed = whole if method.whole else score
            if len(self.reservoir) < CAPACITY:
                self.reservoir.append(row)
                self.scores.append(allowed)
                continue
            reached = list(accumulate(self.scores))
            met = next(n for n, sum_ in enumerate(reached) if sum_ >= first * reached[-1])
            if allowed < 1 and second < self.scores[met] / (self.scores[met] + score):
                self.replaced += 1
                self.reservoir[met], self.scores[met] = row, score

    def flat(self) -> Tensor:
        return torch.cat([p.detach().flatten() for p in self.net.parameters()])

    def put(self, values: Tensor) -> None:
        self.move((self.flat() - values) / LR)

    @torch.no_grad()
    def end_task(self, rows: list[Row]) -> None:
        if isinstance(self.method, FDR):
            done = len(self.rings)
            share = CAPACITY // done
            for ring in self.rings[:-1]:
                del ring[share:]
            key = bits(torch.tensor(SEED), Purpose.KEEP, done - 1)
            chosen = permute(key, torch.arange(share), len(rows)).tolist()
            x = torch.stack([rows[place][0] for place in chosen])
            self.rings[-1] = list(zip(x, self.net(x), strict=True))
        self.rings.append([])
        self.turn = 0


CASES = [
    (GEM(0.0), 4), (GEM(0.5), 4), (GEM(1.0), 1), (GEM(0.5, 0.01), 4),
    (AGEM(), 4), (AGEMR(), 4), (FDR(0.7), 4), (FDR(0.7, two_steps=1), 4), (MER(1.0, 1.0, 1), 1),
    (MER(0.6, 0.3, 2), 1),
    (MER(0.5, 1.0, 1), 3), (MER(0.5, 0.7, 2, inner=3), 3), (MER(inner=99), 1),
    (GSS(gmbs=3), 4), (GSS(gmbs=7), 4), (GSS(gmbs=3, whole=1), 4), (GSS(gmbs=2), 9),
]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "batch"), CASES, ids=lambda value: getattr(value, "name", str(value))
)
def test_a_run_is_its_equations_written_out(
    method: Method, batch: int, tiny_net: Callable[[], MLP], examples: Examples
) -> None:
    """Three tasks: an empty memory, a partly filled and a full one, and ragged batches."""
    torch.manual_seed(SEED)
    loop = Loop(method, tiny_net().double())
    fleet = fleet_of(
        [method], tiny_net, seeds=[SEED], lr=[LR], memory=CAPACITY, replay=REPLAY, tasks=TASKS
    )
    x, y = examples([SEED], TASKS * LENGTH)
    for task in range(TASKS):
        task_x, task_y = (t[:, task * LENGTH : (task + 1) * LENGTH] for t in (x, y))
        for start in range(0, LENGTH, batch):
            part_x, part_y = (t[:, start : start + batch] for t in (task_x, task_y))
            fleet.learn(part_x, part_y, batch)
            loop.observe(list(zip(part_x[0], part_y[0], strict=True)))
            for name, parameter in loop.net.named_parameters():
                ours = fleet.weights.named()[name][0]
                torch.testing.assert_close(ours, parameter.detach(), rtol=0, atol=1e-9)
        fleet.end_task(picked(task_x, task_y), LENGTH)
        fleet.next_task(LENGTH)
        loop.end_task(list(zip(task_x[0], task_y[0], strict=True)))
    assert fleet.clock.task == TASKS
    assert loop.projections or not isinstance(method, GEM)
    if isinstance(method, GSS):
        assert loop.replaced
        scores = torch.tensor(loop.scores, dtype=torch.float64)
        torch.testing.assert_close(fleet.state["score"][0, :CAPACITY], scores, rtol=0, atol=1e-9)


def test_agem_leaves_a_gradient_alone_that_agrees_with_the_past(
    tiny_net: Callable[[], MLP],
) -> None:
    """Where all examples are alike no gradient points against another: it is plain descent."""
    x = torch.full((1, 20, 6), 0.3, dtype=torch.float64)
    y = torch.ones(1, 20, dtype=torch.int64)
    ends = []
    for kind in (SGD, AGEMR):
        fleet = fleet_of([kind()], tiny_net, memory=4, replay=4)
        fleet.learn(x, y, 4)
        ends.append(fleet.weights.named())
    for name, tensor in ends[0].items():
        torch.testing.assert_close(ends[1][name], tensor, rtol=0, atol=1e-12)


def test_gem_projects_only_the_runs_that_need_it(tiny_net: Callable[[], MLP]) -> None:
    """A run whose examples are all alike descends plainly, beside one whose labels change."""
    x = torch.full((2, 20, 6), 0.3, dtype=torch.float64)
    first = torch.ones(2, 20, dtype=torch.int64)
    second = torch.tensor([[1], [2]]).expand(2, 20)
    ends = []
    for method in (SGD(), GEM(0.7)):
        fleet = fleet_of([method] * 2, tiny_net, seeds=[0, 0], memory=8, replay=4, tasks=2)
        fleet.learn(x, first, 4)
        fleet.end_task(picked(x, first), 20)
        fleet.next_task(20)
        fleet.learn(x, second, 4)
        ends.append(fleet.weights.named())
    for name, plain in ends[0].items():
        torch.testing.assert_close(ends[1][name][0], plain[0], rtol=0, atol=1e-12)
        assert not torch.allclose(ends[1][name][1], plain[1], atol=1e-6)


def test_gem_without_room_for_every_task_descends_plainly(
    tiny_net: Callable[[], MLP], examples: Examples
) -> None:
    x, y = examples([0], 20)
    ends = []
    for method in (SGD(), GEM()):
        fleet = fleet_of([method], tiny_net, memory=2, replay=4, tasks=3)
        fleet.learn(x[:, :10], y[:, :10], 4)
        fleet.end_task(picked(x[:, :10], y[:, :10]), 10)
        fleet.next_task(10)
        fleet.learn(x[:, 10:], y[:, 10:], 4)
        ends.append(fleet.weights.named())
    assert all(torch.equal(ends[1][name], tensor) for name, tensor in ends[0].items())
