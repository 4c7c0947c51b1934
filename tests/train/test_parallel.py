"""Several processes: the same results, and no silence when one of them fails."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest
import torch
from tests.train.stopping import mlp
from torch import Tensor

from recollect import ER, SGD, DERpp, Joint, Method, Needs
from recollect.errors import InputError, RecollectError
from recollect.streams import Batch, Stream, TaskStream
from recollect.train import Job, Result, Run, train_all, worker
from recollect.train.devices import one_thread

PARENT = os.getpid()

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="processes are not used here"),
    pytest.mark.usefixtures("no_hang"),
]


def job_of(stream: Stream, *methods: Method) -> Job:
    runs = tuple(Run(seed, 0.1, method) for seed, method in enumerate(methods))
    return Job(stream, runs, batch=10, replay=5, buffer=12, epochs=2, network=mlp)


def jobs(stream: Stream) -> list[Job]:
    return [
        job_of(stream, *(DERpp(0.1 * k, 0.5) for k in range(5))),
        job_of(stream, ER()),
        replace(job_of(stream, *(SGD() for _ in range(2))), buffer=None),
        replace(job_of(stream, Joint()), buffer=None, batch=30),
    ]


@dataclass
class Failing:
    """A stream whose second task does something else, in a child process only."""

    inner: TaskStream
    act: Callable[[], None]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def pick(self, seeds: Tensor, task: int | Tensor, index: Tensor) -> Batch:
        if os.getpid() != PARENT and task == 1:
            self.act()
        return self.inner.pick(seeds, task, index)


def failing(stream: TaskStream, act: Callable[[], None]) -> Job:
    return job_of(cast(Stream, Failing(stream, act)), *(ER() for _ in range(4)))


def without_time(results: list[Result]) -> list[Result]:
    return [replace(result, train_seconds=0.0) for result in results]


def test_two_processes_give_the_results_of_one(toy_stream: TaskStream) -> None:
    told: dict[int, Counter[int]] = {}
    ended: dict[int, list[list[Result]]] = {}
    results: dict[int, list[Result]] = {}
    asked = jobs(toy_stream)
    for workers in (1, 2):
        steps, done = (
            told.setdefault(workers, Counter()),
            ended.setdefault(workers, [[], [], [], []]),
        )
        results[workers] = train_all(
            asked,
            workers=workers,
            progress=lambda job, n, steps=steps: steps.update({asked.index(job): n}),  # type: ignore[misc]
            finished=lambda job, r, done=done: done[asked.index(job)].extend(r),  # type: ignore[misc]
        )
        assert steps == {place: len(job.runs) * job.steps for place, job in enumerate(asked)}
        assert [result for job in done for result in job] == results[workers]
    assert without_time(results[1]) == without_time(results[2])
    assert [r.seed for r in results[2]] == [0, 1, 2, 3, 4, 0, 0, 1, 0]
    assert [r.method for r in results[2]] == ["derpp"] * 5 + ["er"] + ["sgd"] * 2 + ["joint"]


def test_a_process_that_is_killed_is_reported(toy_stream: TaskStream) -> None:
    job = failing(toy_stream, lambda: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(RecollectError, match=r"ended early \(exit status -9\)"):
        train_all([job], workers=2)


def test_an_error_in_a_process_reaches_the_caller(toy_stream: TaskStream) -> None:
    def act() -> None:
        raise InputError("the second task is missing: add it")

    with pytest.raises(InputError, match="the second task is missing: add it"):
        train_all([failing(toy_stream, act)], workers=2)


def test_no_process_outlives_an_error(toy_stream: TaskStream) -> None:
    def act() -> None:
        raise InputError("no")

    with pytest.raises(InputError, match="no"):
        train_all([failing(toy_stream, act)], workers=2)
    assert multiprocessing.active_children() == []

    def interrupt(job: Job, steps: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_all(jobs(toy_stream), workers=2, progress=interrupt)
    assert multiprocessing.active_children() == []


def test_every_job_is_checked_before_any_is_trained(toy_stream: TaskStream) -> None:
    told: list[int] = []

    class Consolidating(SGD):
        needs = Needs(boundaries=True)

    refused = job_of(replace(toy_stream, boundaries=False), Consolidating())
    with pytest.raises(InputError, match="needs task boundaries"):
        train_all([*jobs(toy_stream), refused], workers=1, progress=lambda job, n: told.append(n))
    assert told == []


def test_no_jobs_have_no_results() -> None:
    assert train_all([], workers=2) == []


def test_one_thread_is_for_a_while() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.skipif(sys.platform != "linux", reason="the process must know of a stand-in")
def test_an_interrupt_is_for_the_parent_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> list[Result]:
        os.kill(os.getpid(), signal.SIGINT)
        return []

    monkeypatch.setattr(worker, "train", interrupted)
    connection, process = worker.start_worker(cast(Job, None), None)
    assert connection.recv() == ("results", [])
    process.join()
    assert process.exitcode == 0
    assert capfd.readouterr().err == ""
