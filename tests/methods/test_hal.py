"""HAL: one run of it written out from its equations, and what it does with pictures."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from tests import builders
from tests.builders import learn_task, picked
from torch import Tensor, nn
from torch.nn import functional

from recollect import ER, MLP, Fleet, InputError, Method, ResNet18
from recollect.core.images import Images
from recollect.core.random import Purpose, below, bits, permute, uniform
from recollect.experiments import paper
from recollect.experiments.plan import plan
from recollect.memory import TaskRing
from recollect.methods import HAL, Setup
from recollect.streams import benchmark
from recollect.train.optimisation import Optimisation

SEED, LR, BATCH, CAPACITY, REPLAY, TASKS, LENGTH = 7, 0.2, 4, 8, 3, 3, 14
Row = tuple[Tensor, Tensor]


class Reference:
    """One run; its random numbers are the library's, what it does with them is written out."""

    def __init__(self, method: HAL, net: MLP) -> None:
        self.method, self.net = method, net
        self.rings: list[list[Row]] = [[]]
        self.whole: list[Row] = []
        self.seen = 0
        self.anchors: list[Tensor] = []
        self.phi: dict[int, Tensor] = {}
        self.steps = 0

    def features(self, net: MLP, x: Tensor) -> Tensor:
        for layer in net.hidden:
            x = layer(x).relu()
        return x

    def drawn(self, seed: Tensor, size: int) -> list[Row]:
        rows = [row for ring in self.rings[:-1] for row in ring]
        rows = self.whole if self.method.reservoir else rows
        if not rows:
            return []
        key = bits(seed, Purpose.DRAW, self.steps, 0)
        places = permute(key, torch.arange(min(size, len(rows))), len(rows))
        return [rows[place] for place in places.tolist()]

    def observe(self, batch: list[Row]) -> None:
        method, parameters = self.method, list(self.net.parameters())
        loss = mean_loss(self.net, [*batch, *self.drawn(torch.tensor(SEED), REPLAY)])
        ahead = copy.deepcopy(self.net)
        move(ahead, torch.autograd.grad(loss, parameters, retain_graph=True))
        if self.anchors:
            e = torch.stack(self.anchors)
            change = self.net(e) - ahead(e).detach()
            loss = loss + method.lambda_ * change.square().mean()
        move(self.net, torch.autograd.grad(loss, parameters))
        for label in {int(y) for _, y in batch}:
            x = torch.stack([x for x, y in batch if int(y) == label])
            mean = self.features(self.net, x).mean(0).detach()
            before = self.phi.get(label, torch.zeros_like(mean))
            self.phi[label] = method.beta * before + (1 - method.beta) * mean
        for row in batch:
            self.rings[-1] = [*self.rings[-1], row][-(CAPACITY // TASKS) :]
            self.sample(row)
        self.steps += 1

    def sample(self, row: Row) -> None:
        """Algorithm R: the N-th example (from 0) replaces one of 0..N, if that one is there."""
        number = torch.tensor(self.seen)
        slot = int(below(bits(torch.tensor(SEED), Purpose.SLOT, number), number + 1))
        if len(self.whole) < CAPACITY:
            self.whole.append(row)
        elif slot < CAPACITY:
            self.whole[slot] = row
        self.seen += 1

    def end_task(self) -> None:
        method, task = self.method, len(self.rings) - 1
        later, rows = copy.deepcopy(self.net), self.drawn(self.word(task), CAPACITY)
        batches = -(-len(rows) // REPLAY)
        for some in torch.arange(len(rows)).tensor_split(batches) if batches else ():
            loss = mean_loss(later, [rows[place] for place in some.tolist()])
            move(later, torch.autograd.grad(loss, list(later.parameters())))
        for number, label in enumerate(sorted(self.phi)):
            e = torch.stack([uniform(self.word(task, 6 * number + i)) for i in range(6)])
            target = torch.tensor(label)
            for _ in range(100):
                e.requires_grad_()
                aim = functional.cross_entropy(later(e[None])[0], target)
                aim = aim - functional.cross_entropy(self.net(e[None])[0], target)
                apart = self.features(self.net, e[None])[0] - self.phi[label]
                aim = aim - method.gamma * apart.square().sum()
                (slope,) = torch.autograd.grad(aim, e)
                e = (e + LR * slope).detach()
            self.anchors.append(e)
        self.phi = {}
        self.rings.append([])

    def word(self, *words: int) -> Tensor:
        return bits(torch.tensor(SEED), Purpose.ANCHOR, *words)


def mean_loss(net: nn.Module, rows: list[Row]) -> Tensor:
    x, y = (torch.stack(column) for column in zip(*rows, strict=True))
    return functional.cross_entropy(net(x), y)


@torch.no_grad()
def move(net: nn.Module, gradients: tuple[Tensor, ...]) -> None:
    for parameter, gradient in zip(net.parameters(), gradients, strict=True):
        parameter.sub_(LR * gradient)


def fleet_of(net: Callable[[], nn.Module], *methods: Method, **changes: Any) -> Fleet:
    given = {
        "seeds": [SEED + run for run in range(len(methods))], "lr": [LR] * len(methods),
        "memory": CAPACITY, "replay": REPLAY, "tasks": TASKS,
    }  # fmt: skip
    return builders.fleet_of(methods, net, **{**given, **changes})


def weights_after_two_tasks(
    method: Method, net: Callable[[], MLP], examples: Callable[..., Row], **changes: Any
) -> Tensor:
    """The head's weights of a run of two tasks."""
    fleet = fleet_of(net, method, **changes)
    x, y = examples([SEED], 2 * LENGTH)
    for half_x, half_y in zip(x.chunk(2, 1), y.chunk(2, 1), strict=True):
        fleet.learn(half_x, half_y, BATCH)
        fleet.end_task(picked(half_x, half_y), LENGTH)
        fleet.next_task(LENGTH)
    return fleet.weights.named()["head.weight"]


@pytest.mark.parametrize(
    "method",
    [
        HAL(0.8, 0.3, 0.2), HAL(2.0, 0.7, 0.0), HAL(0.5, 0.0, 0.5), HAL(0.8, 0.3, 0.2, reservoir=1),
    ],
)  # fmt: skip
def test_a_run_is_its_equations_written_out(
    method: HAL, tiny_net: Callable[[], MLP], examples: Callable[..., Row]
) -> None:
    """Three tasks, of two, three and one class, with ragged batches."""
    torch.manual_seed(SEED)
    loop = Reference(method, tiny_net().double())
    fleet = fleet_of(tiny_net, method)
    x, y = examples([SEED], TASKS * LENGTH)
    y[:, :LENGTH] = y[:, :LENGTH].clamp(min=1)
    y[:, 2 * LENGTH :] = 0
    for task in range(TASKS):
        task_x, task_y = (t[:, task * LENGTH : (task + 1) * LENGTH] for t in (x, y))
        fleet.start_task(picked(task_x, task_y), LENGTH)
        for start in range(0, LENGTH, BATCH):
            part_x, part_y = (t[:, start : start + BATCH] for t in (task_x, task_y))
            fleet.learn(part_x, part_y, BATCH)
            loop.observe(list(zip(part_x[0], part_y[0], strict=True)))
            for name, parameter in loop.net.named_parameters():
                ours = fleet.weights.named()[name][0]
                torch.testing.assert_close(ours, parameter.detach(), rtol=0, atol=1e-9)
        fleet.end_task(picked(task_x, task_y), LENGTH)
        fleet.next_task(LENGTH)
        loop.end_task()
        found = fleet.state["anchors"][fleet.state["found"]]
        torch.testing.assert_close(found, torch.stack(loop.anchors), rtol=0, atol=1e-8)
    assert fleet.state["found"][0].tolist() == [True] * 2 + [False] + [True] * 4 + [False] * 2


def test_without_its_weight_it_is_replay_from_a_ring(
    tiny_net: Callable[[], MLP], examples: Callable[..., Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ER, "setup", lambda _, spec: Setup(policy=TaskRing(spec.capacity)))
    methods: list[Method] = [ER(), HAL(0.0), HAL(0.5)]
    ends = [weights_after_two_tasks(method, tiny_net, examples) for method in methods]
    torch.testing.assert_close(ends[1], ends[0], rtol=0, atol=1e-12)
    assert not torch.allclose(ends[2], ends[0], atol=1e-6)


def test_with_a_reservoir_and_without_its_weight_it_is_er(
    tiny_net: Callable[[], MLP], examples: Callable[..., Row]
) -> None:
    methods: list[Method] = [ER(), HAL(0.0, reservoir=1), HAL(0.0)]
    ends = [weights_after_two_tasks(method, tiny_net, examples) for method in methods]
    torch.testing.assert_close(ends[1], ends[0], rtol=0, atol=1e-12)
    assert not torch.allclose(ends[2], ends[0], atol=1e-6)


def test_torchs_optimisers_take_one_step_a_batch(
    tiny_net: Callable[[], MLP], examples: Callable[..., Row]
) -> None:
    """The anchors' gradient is a part of the step: no momentum is counted twice."""
    methods, momentum = (ER(), HAL(0.0, reservoir=1)), Optimisation(options={"momentum": 0.9})
    ends = [
        weights_after_two_tasks(method, tiny_net, examples, optimisation=momentum)
        for method in methods
    ]
    torch.testing.assert_close(ends[1], ends[0], rtol=0, atol=1e-12)


def test_anchors_are_what_the_copy_forgets(
    tiny_net: Callable[[], MLP], examples: Callable[..., Row]
) -> None:
    """In the second task, a pull towards the mean features gives way to forgetting."""
    x, y = examples([SEED, SEED + 1], LENGTH, classes=2)
    fleet = fleet_of(tiny_net, HAL(gamma=0.0), HAL(gamma=1.0), seeds=[SEED, SEED])
    apart = []
    for task_y in (y[:1].expand(2, -1), y[:1].expand(2, -1) + 1):
        task_x = x[:1].expand(2, *x.shape[1:]).contiguous()
        learn_task(fleet, task_x, task_y.contiguous(), BATCH)
        here = fleet.state["anchors"][:, 3 * (fleet.clock.task - 1) :][:, :2]
        phi = fleet.state["phi"][:, fleet.clock.task - 1 :][:, :2]
        apart.append((fleet.model.features(here) - phi).square().sum((1, 2)))
    assert (apart[1][0] > 2 * apart[1][1]).item()


def test_pictures_batch_normalisation_and_bytes() -> None:
    """Anchors begin within the range of a normalised image, and leave statistics alone."""
    images = Images(mean=(0.5, 0.4, 0.3), std=(0.25, 0.25, 0.5))
    fleet = fleet_of(
        partial(ResNet18, 3, width=8), HAL(0.5), HAL(0.1), shape=(3, 16, 16), stored=torch.uint8,
        images=images, dtype=torch.float32, lr=[0.03, 0.1], tasks=2, per_task=2,
    )  # fmt: skip
    assert fleet.network.strategy == "loop"
    x = torch.randint(256, (2, 12, 3, 16, 16), dtype=torch.uint8)
    y = torch.arange(12).expand(2, -1) % 2
    for task in range(2):
        fleet.start_task(picked(x, y + task), 12)
        loss = fleet.learn(x, y + task, BATCH)
        before = {name: tensor.clone() for name, tensor in fleet.network.buffers.items()}
        fleet.end_task(picked(x, y + task), 12)
        fleet.next_task(12)
        assert all(torch.equal(before[name], fleet.network.buffers[name]) for name in before)
    assert loss.isfinite().all()
    assert fleet.state["found"].all()
    assert fleet.state["anchors"].shape == (2, 4, 3, 16, 16)
    assert fleet.state["anchors"].isfinite().all()
    assert fleet.state["anchors"].flatten(2).std(2).min() > 0.1


def test_examples_that_have_no_gradient_are_refused() -> None:
    net = nn.Sequential(nn.Embedding(5, 4), nn.Flatten(), nn.Linear(24, 3))
    fleet = fleet_of(lambda: net, HAL(), stored=torch.int64)
    words, y = torch.zeros(1, 4, 6, dtype=torch.int64), torch.zeros(1, 4, dtype=torch.int64)
    with pytest.raises(InputError, match="HAL optimises its anchors by gradients"):
        fleet.start_task(picked(words, y), 4)


def test_lambda_has_the_papers_name_and_a_python_name() -> None:
    known = benchmark("seq-mnist")
    assert paper.hyperparameters("seq-mnist", "hal", 200)["lambda"] == 0.1
    for values in ({}, {"lambda": 0.7}, {"lambda_": 0.7}):
        (fleet,) = plan(HAL, benchmark=known, buffer=200, seeds=[0], values=values).fleets
        method = fleet[2][0].method
        assert method == HAL(lambda_=0.7 if values else 0.1, beta=0.7, gamma=0.5, reservoir=1)
    with pytest.raises(InputError, match="it has: lr, bs, mbs, lambda, beta, gamma, reservoir"):
        plan(HAL, benchmark=known, buffer=200, seeds=[0], values={"alpha": 1.0})
    with pytest.raises(InputError, match="lambda must be at least 0"):
        plan(HAL, benchmark=known, buffer=200, seeds=[0], values={"lambda": -1.0})
