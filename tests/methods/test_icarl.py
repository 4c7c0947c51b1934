"""iCaRL: a run written out from its equations, its memory, and the ways to train it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tests import builders
from tests.builders import assert_close, close, whole_and_stopped
from torch import Tensor, nn

from recollect import MLP, Fleet, ResNet18
from recollect.core.images import Images
from recollect.errors import InputError
from recollect.methods import ICaRL
from recollect.streams import TaskStream
from recollect.streams.stream import shuffled
from recollect.streams.tasks import examples_of
from recollect.train import Job, Run, train
from recollect.train.source import Source

CLASSES, BATCH, CAPACITY, EPOCHS = 5, 4, 13, 2
TASKS = ((3, 0), (4,), (1, 2))
COUNTS = {0: 7, 1: 9, 2: 6, 3: 9, 4: 3}  # of class 4 there are fewer than its share
SEEDS, RATES, WEIGHTS = [7, 0, 2**40, 3], [0.3, 0.1, 0.5, 0.2], [0.01, 0.0, 0.003, 0.1]


def stream_of(shape: tuple[int, ...] = (6,), images: Images | None = None) -> TaskStream:
    """Three tasks of two, one and two classes; examples are bytes if they are images."""
    generator = torch.Generator().manual_seed(0)
    y = torch.cat([torch.full((n,), label) for label, n in COUNTS.items()])
    y = y[torch.randperm(len(y), generator=generator)]
    x = torch.rand(len(y), *shape, dtype=torch.float64, generator=generator)
    x.flatten(1)[torch.arange(len(y)), y] += 1
    if images is not None:
        x = (x * 127).to(torch.uint8)
    ids = tuple(examples_of(y, classes) for classes in TASKS)
    return TaskStream("toy", "class", CLASSES, x, y, x, y, ids, ids, TASKS, images=images)


def dense() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, CLASSES))


def normalised() -> nn.Module:
    first = [nn.Flatten(), nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Tanh()]
    return nn.Sequential(*first, nn.Linear(4, CLASSES))


NETS: dict[str, Callable[[], nn.Module]] = {
    "mlp": partial(MLP, 6, CLASSES, hidden=(5,)), "dense": dense, "normalised": normalised,
}  # fmt: skip


def fleet_of(net: str, runs: Sequence[int] = (0,), **ways: Any) -> Fleet:
    return builders.fleet_of(
        [ICaRL(WEIGHTS[run]) for run in runs], NETS[net], seeds=[SEEDS[run] for run in runs],
        lr=[RATES[run] for run in runs], classes=CLASSES, memory=CAPACITY, replay=1,
        tasks=len(TASKS), **ways,
    )  # fmt: skip


def learn(fleet: Fleet, stream: TaskStream, task: int) -> None:
    pick = partial(stream.pick, fleet.seeds, task)
    count = len(stream.train_ids[task])
    source = Source(stream, task, fleet, fleet.start_task(pick, count))
    for epoch in range(EPOCHS):
        fleet.learn(*source(epoch, 0, sum(source.parts)), BATCH)
    assert fleet.end_task(pick, count) == 0
    fleet.next_task(count)


def stored(fleet: Fleet) -> int:
    """How many exemplars a run has."""
    return int(fleet.state["exemplars"][0].sum())


class ByHand:
    """One run, one example and one class at a time."""

    def __init__(self, net: nn.Module, rate: float, wd: float) -> None:
        self.net, self.rate, self.wd = net, rate, wd
        self.old: nn.Module | None = None
        self.seen: list[int] = []
        self.exemplars: dict[int, list[Tensor]] = {}

    def rows(self) -> list[tuple[Tensor, int]]:
        return [(x, label) for label, kept in self.exemplars.items() for x in kept]

    def train(self, rows: list[tuple[Tensor, int]], task: int, seed: int) -> None:
        new, mixed = TASKS[task], rows + self.rows()
        self.seen += new
        for epoch in range(EPOCHS):
            order = shuffled(torch.tensor([seed]), task, epoch, 0, len(mixed), len(mixed))[0]
            for start in range(0, len(mixed), BATCH):
                self.step([mixed[place] for place in order[start : start + BATCH].tolist()], new)

    def step(self, batch: list[tuple[Tensor, int]], new: Sequence[int]) -> None:
        x = torch.stack([example for example, _ in batch])
        answers, terms = self.net(x).sigmoid(), []
        for row, (_, label) in enumerate(batch):
            for number in self.seen:
                if number in new:
                    wanted = torch.tensor(float(label == number), dtype=torch.float64)
                else:
                    wanted = self.before(x)[row, number]
                said = answers[row, number]
                terms.append(-(wanted * said.log() + (1 - wanted) * (1 - said).log()))
        norm = torch.stack([p.square().sum() for p in self.net.parameters()]).sum()
        loss = torch.stack(terms).mean() + self.wd * norm
        parts = torch.autograd.grad(loss, list(self.net.parameters()))
        with torch.no_grad():
            for parameter, part in zip(self.net.parameters(), parts, strict=True):
                parameter.sub_(self.rate * part)

    @torch.no_grad()
    def before(self, x: Tensor) -> Tensor:
        assert self.old is not None
        answers: Tensor = self.old(x).sigmoid()
        return answers

    @torch.no_grad()
    def feature(self, x: Tensor) -> Tensor:
        self.net.eval()
        hidden = x[None]
        if isinstance(self.net, MLP):
            hidden = self.net.hidden[0](hidden).relu()
        else:
            for layer in list(self.net.children())[:-1]:
                hidden = layer(hidden)
        self.net.train()
        feature: Tensor = hidden[0] / torch.linalg.vector_norm(hidden[0])
        return feature

    def end_task(self, rows: list[tuple[Tensor, int]], new: Sequence[int]) -> None:
        share = CAPACITY // len(self.seen)
        shrunk = {label: self.exemplars[label][:share] for label in sorted(self.exemplars)}
        self.exemplars = shrunk
        for label in sorted(new):
            mine = [x for x, y in rows if y == label]
            goal = torch.stack([self.feature(x) for x in mine]).mean(0)
            goal = goal / goal.norm()
            kept: list[Tensor] = []
            left = list(range(len(mine)))
            while left and len(kept) < share:
                apart = []
                for place in left:
                    mean = torch.stack([self.feature(x) for x in [*kept, mine[place]]]).mean(0)
                    apart.append(float((goal - mean / mean.norm()).norm()))
                kept.append(mine[left.pop(apart.index(min(apart)))])
            self.exemplars[label] = kept
        self.old = copy.deepcopy(self.net).eval()

    def distances(self, x: Tensor) -> dict[int, float]:
        found = {}
        for label, kept in self.exemplars.items():
            mean = torch.stack([self.feature(example) for example in kept]).mean(0)
            found[label] = float((self.feature(x) - mean / mean.norm()).norm())
        return found


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("run", [0, 1])
def test_a_run_is_its_equations_written_out(net: str, run: int) -> None:
    stream, fleet = stream_of(), fleet_of(net, [run])
    torch.manual_seed(SEEDS[run])
    by_hand = ByHand(NETS[net]().double(), RATES[run], WEIGHTS[run])
    for task, new in enumerate(TASKS):
        ids = stream.train_ids[task]
        rows = [(stream.train_x[i], int(stream.train_y[i])) for i in ids.tolist()]
        learn(fleet, stream, task)
        by_hand.train(rows, task, SEEDS[run])
        by_hand.end_task(rows, new)
        for name, parameter in by_hand.net.named_parameters():
            close(fleet.weights.named()[name][0], parameter.detach())
        kept = by_hand.rows()
        assert stored(fleet) == len(kept)
        memory = fleet.memory.fields()
        assert memory.y[0, : len(kept)].tolist() == [label for _, label in kept]
        assert torch.equal(memory.x[0, : len(kept)], torch.stack([x for x, _ in kept]))
        scores = fleet.predict(stream.test_x[None])[0]
        for place, x in enumerate(stream.test_x):
            distances = by_hand.distances(x)
            for label in range(CLASSES):
                if label in distances:
                    assert float(scores[place, label]) == pytest.approx(-distances[label], abs=1e-9)
                else:
                    assert -1e12 < float(scores[place, label]) < -100
    assert stored(fleet) == 5 * (CAPACITY // 5) == 10


@pytest.mark.parametrize("net", ["mlp", "normalised"])
def test_how_steps_are_carried_out_changes_nothing(net: str, way: dict[str, bool]) -> None:
    stream, plain, fast = stream_of(), fleet_of(net, [0, 2]), fleet_of(net, [0, 2], **way)
    for task in range(len(TASKS)):
        learn(plain, stream, task)
        learn(fast, stream, task)
    assert_close(fast, plain)


def test_the_most_important_exemplars_of_a_class_stay() -> None:
    stream, fleet = stream_of(), fleet_of("mlp", [0, 1])
    kept = []
    for task in range(len(TASKS)):
        learn(fleet, stream, task)
        x, y = (fleet.memory.fields()[name][:, : stored(fleet)] for name in ("x", "y"))
        kept.append([x[run][y[run] == 3] for run in (0, 1)])
    for run in (0, 1):
        first, second, third = (each[run] for each in kept)
        assert (len(first), len(second), len(third)) == (6, 4, 2)
        assert torch.equal(first[:4], second)
        assert torch.equal(first[:2], third)


def test_a_class_that_comes_again_is_chosen_afresh() -> None:
    stream = stream_of()
    again = replace(stream, train_ids=(*stream.train_ids[:2], stream.train_ids[0]))
    fleet = fleet_of("mlp", [0, 1])
    for task in range(3):
        learn(fleet, again, task)
    assert stored(fleet) == 3 + 2 * (CAPACITY // 3)
    assert fleet.memory.fields().y[0, :11].tolist() == [4] * 3 + [0] * 4 + [3] * 4


def test_a_buffer_for_fewer_exemplars_than_classes_is_refused() -> None:
    with pytest.raises(InputError, match="a buffer of 4 is too small for 5 classes"):
        Fleet([ICaRL()], NETS["mlp"], seeds=[0], lr=[0.1], classes=5, shape=(6,), memory=4,
              replay=1)  # fmt: skip


def test_runs_that_meet_different_classes_are_refused() -> None:
    fleet = fleet_of("mlp", [0, 1])
    labels = torch.tensor([[0, 1, 1], [0, 0, 1]])

    def examples(places: Tensor) -> tuple[Tensor, Tensor]:
        return torch.zeros(*places.shape, 6, dtype=torch.float64), labels.gather(1, places)

    with pytest.raises(InputError, match="must have the same classes in a task, with equal counts"):
        fleet.start_task(examples, 3)


def test_a_network_without_a_linear_layer_is_refused() -> None:
    class Pooled(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x[..., :CLASSES] * self.scale

        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(CLASSES))

    job = job_of(stream_of(), network=Pooled)
    with pytest.raises(InputError, match="last linear layer"):
        train(job)


def job_of(stream: TaskStream, *, network: Callable[[], nn.Module], epochs: int = 1) -> Job:
    x = stream.train_x
    if x.dtype == torch.float64:
        stream = replace(stream, train_x=x.float(), test_x=x.float())
    runs = tuple(Run(seed, 0.1 * (seed + 1), ICaRL(0.001 * seed)) for seed in (0, 1))
    return Job(stream, runs, batch=4, replay=1, buffer=CAPACITY, epochs=epochs, network=network)


@pytest.mark.parametrize("net", ["mlp", "normalised"])
def test_stopped_anywhere_it_ends_as_if_it_never_had(
    net: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trained_fleets: list[Fleet]
) -> None:
    monkeypatch.setattr("recollect.train.source.STRETCH", 4)
    job = job_of(stream_of(), network=NETS[net])
    whole, again, stops = whole_and_stopped(job, tmp_path)
    assert again == whole
    assert stops == whole[0].steps == sum(-(-n // 4) for n in (16, 3 + 12, 15 + 11))
    for name, tensor in trained_fleets[0].tensors().items():
        assert torch.equal(trained_fleets[-1].tensors()[name], tensor), name


def test_forward_transfer_is_not_defined() -> None:
    """There is no mean of exemplars for a class that has not come yet."""
    (first, _) = train(job_of(stream_of(), network=NETS["mlp"]))
    assert first.fwt == {"class": None, "task": None}
    assert first.bwt["class"] is not None


def test_a_small_resnet_learns_pictures() -> None:
    images = Images(mean=(0.3, 0.3, 0.3), std=(0.2, 0.2, 0.2), padding=1)
    stream = stream_of((3, 8, 8), images)
    job = job_of(stream, network=partial(ResNet18, CLASSES, width=8), epochs=2)
    results = train(job)
    assert not any(run.diverged for run in results)
    assert results[0].execution.startswith("loop")
    memory = CAPACITY * (3 * 8 * 8 + 8)
    assert results[0].memory_bytes > memory, "and the old network"
    assert all(0 <= run.accuracy["class"] <= run.accuracy["task"] <= 100 for run in results)
