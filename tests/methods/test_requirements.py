"""The marks of the table of requirements, each proven for every method by training it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor

from recollect import MLP, Fleet
from recollect.errors import InputError
from recollect.methods import METHODS, requirements
from recollect.streams import TaskStream
from recollect.train import Job, Run
from recollect.train.loop import check

LENGTH, BATCH, MEMORY, PER_TASK = 12, 4, 40, 2
CONTINUAL = [name for name, kind in METHODS.items() if not kind.needs_all_data]


def fleet_of(name: str, tasks: int, classes: int = 20) -> Fleet:
    return Fleet(
        [METHODS[name]()], partial(MLP, 5, classes, hidden=(12, 8)), seeds=[3], lr=[0.05],
        classes=classes, shape=(5,), memory=MEMORY, replay=4, stored=torch.float64,
        dtype=torch.float64, tasks=tasks, per_task=PER_TASK,
    )  # fmt: skip


def data(tasks: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(tasks, 1, LENGTH, 5, dtype=torch.float64, generator=generator)
    y = torch.arange(LENGTH).remainder(PER_TASK).expand(tasks, 1, -1)
    return x, y + PER_TASK * torch.arange(tasks)[:, None, None]


def through(fleet: Fleet, tasks: int, *, told: bool = True, shown: bool = True) -> None:
    """All tasks: told of boundaries or not, and shown their examples again or only labels."""
    batch = fleet.kind.batch or BATCH
    for x, y in zip(*data(tasks), strict=True):
        seen = x if shown else torch.full_like(x, torch.nan)

        def examples(index: Tensor, x: Tensor = seen, y: Tensor = y) -> tuple[Tensor, Tensor]:
            return x[:, index[0]], y[:, index[0]]

        if told:
            fleet.start_task(examples, LENGTH, batch)
        fleet.learn(x, y, batch)
        if told and fleet.kind().extra_epochs():
            fleet.revise_task(examples, LENGTH, batch)
            fleet.learn(x, y, batch)
        if told:
            fleet.end_task(examples, LENGTH, batch)


def held(fleet: Fleet) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in fleet.tensors().values())


@pytest.mark.parametrize("name", CONTINUAL)
def test_constant_memory(name: str) -> None:
    """What is held after ten tasks is what is held after two, or it is not constant."""
    sizes = []
    for tasks in (2, 10):
        fleet = fleet_of(name, tasks)
        through(fleet, tasks)
        sizes.append(held(fleet))
    assert (sizes[0] == sizes[1]) == requirements(METHODS[name])["constant memory"]


@pytest.mark.parametrize("name", CONTINUAL)
def test_no_task_boundaries(name: str, toy_stream: TaskStream) -> None:
    """It learns from a stream that has none, or is refused there in a sentence."""
    kind = METHODS[name]
    network = partial(MLP, 16, toy_stream.classes)
    run = Run(0, 0.1, kind())
    job = Job(stream=replace(toy_stream, boundaries=False), runs=(run,), batch=4, replay=4,
              buffer=MEMORY, epochs=1, network=network)  # fmt: skip
    if not requirements(kind)["no task boundaries"]:
        with pytest.raises(InputError, match=r"needs to be told where a task ends, and toy has no"):
            check(job)
        return
    check(job)
    fleet = fleet_of(name, tasks=1)
    before = [tensor.clone() for tensor in fleet.weights]
    through(fleet, 3, told=False)
    assert all(tensor.isfinite().all() for tensor in fleet.weights)
    assert any(not torch.equal(a, b) for a, b in zip(before, fleet.weights, strict=True))


@pytest.mark.parametrize("name", CONTINUAL)
def test_online_learning(name: str) -> None:
    """Examples that are spoilt when they are looked at again do no harm, or it is not online."""
    whole, once = fleet_of(name, 3), fleet_of(name, 3)
    through(whole, 3)
    through(once, 3, shown=False)
    kind = METHODS[name]
    same = all(
        torch.equal(tensor, once.tensors()[name]) for name, tensor in whole.tensors().items()
    )
    online = same and not kind().extra_epochs()
    assert online == requirements(kind)["online learning"]


@pytest.mark.parametrize("name", CONTINUAL)
def test_no_test_time_oracle(name: str) -> None:
    """What it answers does not depend on which task it is told, or it needs an oracle."""
    fleet = fleet_of(name, 3)
    through(fleet, 3)
    x = data(3)[0][0]
    same = torch.equal(fleet.scores(x, 0), fleet.scores(x, 2))
    assert same == requirements(METHODS[name])["no test time oracle"]


def test_joint_meets_only_what_it_can() -> None:
    met = requirements(METHODS["joint"])
    assert [name for name, mark in met.items() if not mark] == [
        "constant memory",
        "online learning",
    ]
