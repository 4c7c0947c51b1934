"""What arrives in a task: the stream as it is, or mixed with what is remembered."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from recollect import ER, MLP, Fleet, Method, Needs, Replay, Setup, Spec, Step, Task
from recollect.memory import TaskShares
from recollect.streams import TaskStream
from recollect.train.source import Source

SEEDS, COUNT, KEPT = [4, 0, 9], 35, 6


@dataclass(frozen=True)
class Mixing(Method):
    """Rehearses six examples, which a test writes."""

    name: ClassVar[str] = "mixing"
    title: ClassVar[str] = "Mixing"
    needs: ClassVar[Needs] = Needs(boundaries=True)
    replay: ClassVar[Replay] = Replay(("x", "y"), draws=0)

    def setup(self, spec: Spec) -> Setup:
        return Setup(policy=TaskShares(spec.capacity))

    def loss(self, step: Step) -> Tensor:
        return step.net(step.x)[0].mean((1, 2))

    def start_task(self, task: Task) -> None:
        task.rehearse(KEPT)


def fleet_of(method: Method, seeds: list[int], shape: tuple[int, ...] = (6,)) -> Fleet:
    fleet = Fleet(
        [method] * len(seeds), lambda: MLP(6, 4, hidden=(3,)), seeds=seeds, lr=[0.1] * len(seeds),
        classes=4, shape=shape, memory=8, replay=2,
    )  # fmt: skip
    remembered = 1000 * (torch.tensor(seeds)[:, None] + 1) + torch.arange(8.0)
    x = remembered.view(-1, 8, *[1] * len(shape)).expand(-1, -1, *shape)
    y = torch.arange(8).remainder(4).expand(len(seeds), -1)
    slots = torch.arange(8).expand(len(seeds), -1)
    fleet.memory.write(fleet.memory.rows(slots), {"x": x, "y": y})
    return fleet


def source_of(stream: TaskStream, task: int, fleet: Fleet) -> Source:
    rehearsed = fleet.start_task(partial(stream.pick, fleet.seeds, task), COUNT)
    return Source(stream, task, fleet, rehearsed)


def test_without_a_mixed_memory_it_is_the_stream(toy_stream: TaskStream) -> None:
    fleet = fleet_of(ER(), SEEDS)
    source = source_of(toy_stream, 1, fleet)
    assert source.parts == toy_stream.parts(1) == (COUNT,)
    order = toy_stream.order(fleet.seeds, 1, 2, 5, 20)
    expected = toy_stream.pick(fleet.seeds, 1, order)
    x, y = source(2, 5, 20)
    assert torch.equal(x, expected.x)
    assert torch.equal(y, expected.y)


@pytest.mark.parametrize("shape", [(6,), (2, 3)])
def test_an_epoch_is_every_example_and_every_memory_once(
    shape: tuple[int, ...], toy_stream: TaskStream
) -> None:
    x = toy_stream.train_x.view(-1, *shape)
    stream = TaskStream(
        "toy", "class", 4, x, toy_stream.train_y, x, toy_stream.train_y, toy_stream.train_ids,
        toy_stream.train_ids, toy_stream.classes_of,
    )  # fmt: skip
    fleet = fleet_of(Mixing(), SEEDS, shape)
    source = source_of(stream, 1, fleet)
    assert source.parts == (COUNT + KEPT,)
    found, labels = source(0, 0, COUNT + KEPT)
    ids = stream.train_ids[1]
    memory = fleet.memory.fields()
    for k in range(len(SEEDS)):
        wanted = torch.cat([x[ids], memory.x[k, :KEPT]]).flatten(1)
        rows = [tuple(row) for row in wanted.tolist()]
        assert sorted(rows) == sorted(tuple(row) for row in found[k].flatten(1).tolist())
        known = dict(
            zip(rows, [*stream.train_y[ids].tolist(), *memory.y[k, :KEPT].tolist()], strict=True)
        )
        assert labels[k].tolist() == [known[tuple(row)] for row in found[k].flatten(1).tolist()]


def test_a_part_is_cut_out_of_the_same_order(toy_stream: TaskStream) -> None:
    source = source_of(toy_stream, 0, fleet_of(Mixing(), SEEDS))
    whole_x, whole_y = source(0, 0, COUNT + KEPT)
    for first, until in ((0, 7), (7, 30), (30, COUNT + KEPT)):
        x, y = source(0, first, until)
        assert torch.equal(x, whole_x[:, first:until])
        assert torch.equal(y, whole_y[:, first:until])


def test_epochs_and_runs_have_orders_of_their_own_and_company_changes_none(
    toy_stream: TaskStream,
) -> None:
    source = source_of(toy_stream, 0, fleet_of(Mixing(), SEEDS))
    first, second = (source(epoch, 0, COUNT + KEPT)[0] for epoch in (0, 1))
    assert not torch.equal(first, second)
    assert not torch.equal(first[0] > 999, first[1] > 999)
    for k, seed in enumerate(SEEDS):
        alone = source_of(toy_stream, 0, fleet_of(Mixing(), [seed]))
        assert torch.equal(alone(1, 0, COUNT + KEPT)[0][0], second[k])
