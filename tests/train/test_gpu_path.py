"""What a GPU would meet: one fleet after the other, halves where memory is short, its name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.builders import timeless

from recollect import ER, MLP, RecollectError
from recollect.streams import TaskStream
from recollect.train import Checkpoints, Job, Result, Run, TimeUp, train, train_all
from recollect.train.compiled import compiling_pays
from recollect.train.execution import Lanes

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.fixture(autouse=True)
def freed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How often memory was given back; that takes a while with all of torch to look through."""
    times: list[str] = []
    monkeypatch.setattr("recollect.train.parallel.free_memory", lambda: times.append("freed"))
    return times


@dataclass
class Pretended:
    """Training on a GPU in whose memory so many runs have room."""

    room: int
    before: int = 0  # how many steps are reported before memory runs out
    limit: Callable[[Job], bool] = lambda job: False
    tried: list[tuple[int, ...]] = field(default_factory=list)

    def __call__(
        self, job: Job, report: Callable[[int], None], checkpoints: Checkpoints | None = None
    ) -> list[Result]:
        self.tried.append(tuple(run.seed for run in job.runs))
        assert len(self.tried) < 100, "it tries for ever"
        if len(job.runs) > self.room:
            for _ in range(self.before):
                report(1)
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        if self.limit(job):
            report(1)
            raise TimeUp("stopped by the time limit after 1 of 8 steps; the same command continues")
        for _ in range(job.steps):
            report(1)
        return [result_of(job, run) for run in job.runs]


def result_of(job: Job, run: Run) -> Result:
    return Result(
        benchmark=job.stream.name, method=job.kind.name, buffer=job.buffer, seed=run.seed,
        hyperparameters={}, accuracy={}, fwt={}, bwt={}, forgetting={}, epochs=job.epochs,
        validation=False, matrix={}, untrained=None, train_seconds=0.0, steps=job.steps,
        memory_bytes=0, diverged=False, device="GPU", execution="pretended",
    )  # fmt: skip


def job_of(stream: TaskStream, seeds: range, epochs: int = 1) -> Job:
    runs = tuple(Run(seed, 0.1, ER()) for seed in seeds)
    return Job(stream, runs, batch=10, replay=5, buffer=12, epochs=epochs,
               network=lambda: MLP(6, 4), device=GPU)  # fmt: skip


@dataclass
class Told:
    """Everything that `train_all` says, and what it returns."""

    results: list[Result] = field(default_factory=list)
    steps: Counter[int] = field(default_factory=Counter)
    finished: list[tuple[int, list[int]]] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)


def train_pretending(
    pretended: Pretended, jobs: list[Job], monkeypatch: pytest.MonkeyPatch, told: Told | None = None
) -> Told:
    heard = told or Told()
    monkeypatch.setattr("recollect.train.parallel.train", pretended)
    heard.results = train_all(
        jobs,
        workers=2,
        progress=lambda job, steps: heard.steps.update({jobs.index(job): steps}),
        finished=lambda job, results: heard.finished.append(
            (jobs.index(job), [result.seed for result in results])
        ),
        notice=heard.notices.append,
    )
    return heard


class TestSplitting:
    """A job is one fleet, or several where one does not fit."""

    def test_jobs_are_whole_where_there_is_room(
        self, toy_stream: TaskStream, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        jobs = [job_of(toy_stream, range(40)), job_of(toy_stream, range(3), epochs=2)]
        pretended = Pretended(room=100)
        told = train_pretending(pretended, jobs, monkeypatch)
        assert pretended.tried == [tuple(range(40)), (0, 1, 2)]
        assert told.notices == []
        assert told.steps == {0: 40 * 8, 1: 3 * 16}

    @pytest.mark.parametrize("room", [1, 2, 3, 4, 5, 7, 10])
    @pytest.mark.parametrize("before", [0, 3])
    def test_what_does_not_fit_is_halved_until_it_does(
        self, room: int, before: int, toy_stream: TaskStream, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        jobs = [job_of(toy_stream, range(10)), job_of(toy_stream, range(20, 29), epochs=3)]
        pretended = Pretended(room, before)
        told = train_pretending(pretended, jobs, monkeypatch)
        assert [result.seed for result in told.results] == [*range(10), *range(20, 29)]
        assert [result.epochs for result in told.results] == [1] * 10 + [3] * 9
        assert told.finished == [(0, list(range(10))), (1, list(range(20, 29)))]
        assert told.steps == {0: jobs[0].total_steps, 1: jobs[1].total_steps}
        trained = [seeds for seeds in pretended.tried if len(seeds) <= room]
        assert [seed for seeds in trained for seed in seeds] == [*range(10), *range(20, 29)]
        assert max(map(len, trained)) > room // 2, "no smaller than it must be"

    def test_the_notice_says_how_many_at_a_time(
        self, toy_stream: TaskStream, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        told = train_pretending(Pretended(3), [job_of(toy_stream, range(10))], monkeypatch)
        assert told.notices == [
            "10 runs do not fit into the GPU's memory together: training 5 at a time",
            "5 runs do not fit into the GPU's memory together: training 3 at a time",
        ]

    def test_later_jobs_start_with_what_fitted(
        self, toy_stream: TaskStream, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        jobs = [job_of(toy_stream, range(8), epochs=epochs) for epochs in (1, 2, 3)]
        pretended = Pretended(room=4)
        told = train_pretending(pretended, jobs, monkeypatch)
        assert [len(seeds) for seeds in pretended.tried] == [8, 4, 4, 4, 4, 4, 4]
        assert len(told.notices) == 1

    def test_memory_is_given_back_before_every_other_try(
        self, toy_stream: TaskStream, monkeypatch: pytest.MonkeyPatch, freed: list[str]
    ) -> None:
        class Noting(Pretended):
            def __call__(self, job: Job, *others: Any) -> list[Result]:
                freed.append(f"{len(job.runs)} runs")
                return super().__call__(job, *others)

        jobs = [job_of(toy_stream, range(4)), job_of(toy_stream, range(2), epochs=2)]
        train_pretending(Noting(2), jobs, monkeypatch)
        tries = ["4 runs", "2 runs", "2 runs", "2 runs"]
        assert freed == [each for runs in tries for each in (runs, "freed")]

    def test_one_run_that_does_not_fit_is_an_error_that_helps(
        self, toy_stream: TaskStream, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        told = Told()
        with pytest.raises(RecollectError, match="a single run does not fit") as refused:
            train_pretending(Pretended(0), [job_of(toy_stream, range(4))], monkeypatch, told)
        assert "a smaller buffer or --device cpu" in str(refused.value)
        assert refused.value.__suppress_context__, "no traceback of torch's above it"
        assert told.finished == []
        assert sum(told.steps.values()) == 0

    def test_other_errors_are_not_taken_for_a_lack_of_memory(
        self, toy_stream: TaskStream, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object) -> list[Result]:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

        monkeypatch.setattr("recollect.train.parallel.train", fail)
        with pytest.raises(RuntimeError, match="illegal memory access"):
            train_all([job_of(toy_stream, range(4))])

    def test_no_process_is_started(
        self, toy_stream: TaskStream, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A process that is forked cannot use a GPU that its parent has used."""

        def refuse(*_: object) -> Any:
            raise AssertionError("a process was started")

        monkeypatch.setattr("recollect.train.parallel.start_worker", refuse)
        jobs = [job_of(toy_stream, range(4)), job_of(toy_stream, range(2), epochs=2)]
        assert len(train_pretending(Pretended(8), jobs, monkeypatch).results) == 6


class TestTimeLimit:
    """What was finished is told, the rest waits for the next call."""

    def test_the_job_at_work_stops_and_no_other_begins(
        self, toy_stream: TaskStream, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        jobs = [job_of(toy_stream, range(3), epochs=epochs) for epochs in (1, 2, 3)]
        pretended = Pretended(room=8, limit=lambda job: job.epochs == 2)
        told = Told()
        with pytest.raises(TimeUp, match="after 1 of 8 steps"):
            train_pretending(pretended, jobs, monkeypatch, told)
        assert len(pretended.tried) == 2
        assert told.finished == [(0, [0, 1, 2])]
        assert told.steps == {0: 3 * 8, 1: 3}

    def test_parts_of_a_job_are_stopped_and_continued(
        self, toy_stream: TaskStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With true training, on the CPU in the GPU's place."""
        job = job_of(toy_stream, range(4))
        tried: list[int] = []

        def in_its_place(
            part: Job, report: Callable[[int], None], checkpoints: Checkpoints
        ) -> list[Result]:
            tried.append(len(part.runs))
            if len(part.runs) > 2:
                raise torch.OutOfMemoryError("CUDA out of memory.")
            return train(replace(part, device=CPU), report, checkpoints)

        monkeypatch.setattr("recollect.train.parallel.train", in_its_place)
        folder = tmp_path / "kept"
        for _ in range(4):
            with pytest.raises(TimeUp):
                train_all([job], checkpoints=Checkpoints(folder, deadline=0.0))
        assert tried == [4, 2] * 2 + [4, 2, 2] * 2, "each part has two tasks, so two stretches"
        assert len(list(folder.glob("*.json"))) == 1
        assert len(list(folder.glob("*.safetensors"))) == 1
        results = train_all([job], checkpoints=Checkpoints(folder))
        halves = [train(replace(half, device=CPU)) for half in job.split(2)]
        assert timeless(results) == timeless([result for half in halves for result in half])
        assert not folder.exists()


class TestCompiling:
    """It takes a while, so it must save more."""

    FEW, MANY = 500, 10_000_000

    @pytest.mark.parametrize(
        ("device", "one_by_one", "pays"),
        [(CPU, False, True), (CPU, True, False), (GPU, False, False), (GPU, True, True)],
    )
    def test_it_pays_for_long_runs_of_some_networks(
        self, device: torch.device, one_by_one: bool, pays: bool
    ) -> None:
        assert compiling_pays(device, one_by_one, self.MANY, 1) == pays
        assert not compiling_pays(device, one_by_one, self.FEW, 1)
        worth = [compiling_pays(device, one_by_one, steps, 1) for steps in range(0, 100_000, 500)]
        assert worth == sorted(worth), "once it pays, it pays for longer runs too"

    def test_runs_that_go_one_by_one_share_what_is_compiled(self) -> None:
        alone = next(n for n in range(100_000) if compiling_pays(GPU, True, n, 1))
        shared = next(n for n in range(100_000) if compiling_pays(GPU, True, n, 10))
        assert shared == alone // 10


def test_lanes_without_streams_work_in_order() -> None:
    lanes = Lanes(CPU, 5)
    assert len(lanes) == 1
    happened: list[int] = []

    def piece(number: int) -> int:
        happened.append(number)
        return number * number

    work = [lambda n=n: piece(n) for n in range(5)]
    assert lanes(work) == [0, 1, 4, 9, 16]
    assert happened == [0, 1, 2, 3, 4]
    assert lanes([]) == []
