"""What a method can ask for at a task's start and end: rehearsed examples and further epochs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from tests.builders import fleet_of, picked, whole_and_stopped
from tests.train.stopping import job_of, normalised
from torch import Tensor

from recollect import (
    MLP,
    Fleet,
    InputError,
    Method,
    Needs,
    Replay,
    Setup,
    Spec,
    Step,
    Task,
    hyper,
)
from recollect.memory import TaskShares
from recollect.methods import ICaRL, PackNet
from recollect.streams import TaskStream
from recollect.train import Checkpoints, TimeUp, train

pytestmark = pytest.mark.usefixtures("unchecked_steps")

BATCHES: list[Tensor] = []
COUNT, STORED = 35, 5


@dataclass(frozen=True)
class Rehearsing(Method):
    """Stores the first examples of a task when it ends, and rehearses all that it has.

    Then it asks for `more` epochs after the first task, and one less after every other.
    """

    more: int = hyper(2, "further epochs after the first task")

    name: ClassVar[str] = "rehearsing"
    title: ClassVar[str] = "Rehearsing"
    needs: ClassVar[Needs] = Needs(boundaries=True, revisits=True)
    replay: ClassVar[Replay] = Replay(("x", "y"), draws=0)

    def setup(self, spec: Spec) -> Setup:
        return Setup(
            policy=TaskShares(spec.capacity),
            state=lambda model: {"stored": torch.zeros(spec.runs, dtype=torch.int64)},
        )

    def loss(self, step: Step) -> Tensor:
        BATCHES.append(step.x.clone())
        return step.criterion(step.net(step.x)[0], step.y)

    def start_task(self, task: Task) -> None:
        task.rehearse(int(task.state["stored"][0]))

    def end_task(self, task: Task) -> None:
        x, y = task.examples(task.for_all(torch.arange(STORED)))
        before = int(task.state["stored"][0])
        slots = task.for_all(torch.arange(before, before + STORED))
        task.memory.write(task.memory.rows(slots), {"x": x, "y": y})
        task.state["stored"] += STORED
        task.extend(self.more - task.clock.task)


def rows(batches: list[Tensor]) -> list[tuple[float, ...]]:
    """The examples of the first run, in order."""
    return sorted(tuple(row) for row in torch.cat([batch[0] for batch in batches]).tolist())


def test_every_epoch_has_the_task_and_what_is_rehearsed_once(toy_stream: TaskStream) -> None:
    BATCHES.clear()
    (result, _) = train(job_of(toy_stream, Rehearsing(), Rehearsing(), epochs=2))
    first, second = (toy_stream.train_x[ids] for ids in toy_stream.train_ids)
    stored = first[:STORED]
    epochs = [
        *[first] * 2, *[first] * 2,  # two, and two more
        *[torch.cat([second, stored])] * 2, torch.cat([second, stored]),  # and one more
    ]  # fmt: skip
    start = 0
    for expected in epochs:
        steps = -(-len(expected) // 10)
        assert rows(BATCHES[start : start + steps]) == rows([expected[None]])
        start += steps
    assert start == len(BATCHES) == result.steps == 4 * 4 + 3 * 4
    orders = {tuple(batch[0, :, 0].tolist()) for batch in BATCHES}
    assert len(orders) == len(BATCHES), "every epoch has an order of its own"


def test_a_fleet_says_what_was_asked_for(tiny_net: Callable[[], MLP]) -> None:
    fleet = fleet_of([Rehearsing(3)] * 2, tiny_net, memory=8, replay=1, tasks=3)
    x, y = torch.rand(2, 6, 6, dtype=torch.float64), torch.zeros(2, 6, dtype=torch.int64)
    assert fleet.start_task(picked(x, y), 6) == 0
    assert fleet.end_task(picked(x, y), 6) == 3
    assert fleet.clock.task == 0, "it may learn on"
    fleet.next_task(6)
    assert fleet.clock.task == 1
    assert fleet.start_task(picked(x, y), 6) == STORED


@pytest.mark.parametrize("count", [-1, 9])
def test_more_than_the_memory_has_cannot_be_rehearsed(
    count: int, tiny_net: Callable[[], MLP]
) -> None:
    @dataclass(frozen=True)
    class Greedy(Rehearsing):
        def start_task(self, task: Task) -> None:
            task.rehearse(count)

    fleet = fleet_of([Greedy()], tiny_net, memory=8, replay=1)
    x, y = torch.rand(1, 6, 6, dtype=torch.float64), torch.zeros(1, 6, dtype=torch.int64)
    with pytest.raises(InputError, match=f"task.rehearse got {count} examples: it must be in 0..8"):
        fleet.start_task(picked(x, y), 6)


def test_requests_at_the_wrong_end_of_a_task_are_refused(tiny_net: Callable[[], MLP]) -> None:
    @dataclass(frozen=True)
    class Confused(Rehearsing):
        def start_task(self, task: Task) -> None:
            task.extend(1)

        def end_task(self, task: Task) -> None:
            task.rehearse(1)

    fleet = fleet_of([Confused()], tiny_net, memory=8, replay=1)
    x, y = torch.rand(1, 6, 6, dtype=torch.float64), torch.zeros(1, 6, dtype=torch.int64)
    with pytest.raises(InputError, match=r"task\.extend can only be called in end_task"):
        fleet.start_task(picked(x, y), 6)
    with pytest.raises(InputError, match=r"task\.rehearse can only be called in start_task"):
        fleet.end_task(picked(x, y), 6)


class TestStopped:
    """A job that is stopped in rehearsed or further epochs continues there."""

    @pytest.mark.usefixtures("short_stretches")
    @pytest.mark.parametrize("epochs", [1, 2])
    def test_it_ends_as_if_it_had_never_been(
        self,
        epochs: int,
        toy_stream: TaskStream,
        tmp_path: Path,
        trained_fleets: list[Fleet],
    ) -> None:
        job = job_of(toy_stream, Rehearsing(), Rehearsing(), network=normalised, epochs=epochs)
        whole, again, stops = whole_and_stopped(job, tmp_path)
        assert again == whole
        assert stops == whole[0].steps == 4 * (epochs + 2) + 4 * (epochs + 1)
        for name, tensor in trained_fleets[0].tensors().items():
            assert torch.equal(trained_fleets[-1].tensors()[name], tensor), name
        assert trained_fleets[-1].clock == trained_fleets[0].clock

    @pytest.mark.usefixtures("short_stretches")
    def test_each_stretch_learns_what_it_would_have(
        self, toy_stream: TaskStream, tmp_path: Path
    ) -> None:
        job = job_of(toy_stream, Rehearsing(), Rehearsing())
        BATCHES.clear()
        train(job)
        whole = list(BATCHES)
        BATCHES.clear()
        whole_and_stopped(job, tmp_path)
        stopped = BATCHES[len(whole) :]
        assert len(stopped) == len(whole)
        assert all(torch.equal(one, other) for one, other in zip(stopped, whole, strict=True))


@pytest.fixture(params=[10, 20, 4096])
def stretches(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recollect.train.source.STRETCH", request.param)


@pytest.mark.usefixtures("stretches")
@pytest.mark.parametrize("method", [ICaRL(), PackNet(retrain=3), Rehearsing()], ids=repr)
class TestProgress:
    """What is reported adds up to the steps of the job, however many there are in fact."""

    def test_of_a_job_in_one_go(self, method: Method, toy_stream: TaskStream) -> None:
        job, reported = job_of(toy_stream, method, epochs=3), list[int]()
        (result,) = train(job, reported.append)
        assert sum(reported) == job.steps == 24 < result.steps
        assert min(reported) >= 0

    def test_of_a_job_that_is_stopped(
        self, method: Method, toy_stream: TaskStream, tmp_path: Path
    ) -> None:
        job = job_of(toy_stream, method, epochs=3)
        done = 0
        for _ in range(100):
            reported: list[int] = []
            try:
                train(job, reported.append, Checkpoints(tmp_path, deadline=0.0))
            except TimeUp as limit:
                said = str(limit)
            else:
                break
            assert sum(reported) >= done
            done = sum(reported)
            assert f"after {done} of 24 steps" in said
        assert sum(reported) == done == job.steps
