"""Stopped and continued: the same results, whatever was in the way."""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

from recollect import ER, MLP, SGD, DERpp, InputError, Joint, Method, RecollectError
from recollect.core.images import Images
from recollect.methods import METHODS
from recollect.streams import Stream, TaskStream
from recollect.train import Checkpoints, Fleet, Job, Result, Run, TimeUp, train, train_all
from recollect.train.checkpoint import Saved, fingerprint

NAME = "abc"


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    """A test that waits for ever fails instead."""
    if sys.platform == "win32":
        yield
        return

    def give_up(*_: object) -> None:
        raise TimeoutError("nothing happened for a minute")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def short_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every batch of ten is a stretch of its own."""
    monkeypatch.setattr("recollect.train.loop.STRETCH", 10)


mlp = partial(MLP, 6, 4, hidden=(8,))


def normalised() -> nn.Module:
    first = [nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3)]
    return nn.Sequential(*first, nn.Linear(8, 4))


def convolutional() -> nn.Module:
    first = [nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU()]
    return nn.Sequential(*first, nn.Flatten(), nn.Linear(12, 4))


def photographs() -> TaskStream:
    """Two tasks of 20 images of bytes that are cropped and flipped."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(256, (40, 2, 4, 4), dtype=torch.uint8, generator=generator)
    y = torch.arange(40) % 4
    x[:, 0, :2] = (60 * y.view(-1, 1, 1)).to(torch.uint8)
    classes = ((0, 1), (2, 3))
    ids = tuple(torch.isin(y, torch.tensor(pair)).nonzero().flatten() for pair in classes)
    images = Images(mean=(0.5, 0.4), std=(0.2, 0.3), padding=1)
    return TaskStream("photos", "class", 4, x, y, x, y, ids, ids, classes, images=images)


def job_of(stream: Stream, *methods: Method, **changes: Any) -> Job:
    runs = tuple(Run(seed, 0.05 * (seed + 1), method) for seed, method in enumerate(methods))
    buffer = 12 if methods[0].uses_memory() else None
    job = Job(stream, runs, batch=10, replay=5, buffer=buffer, epochs=1, network=mlp)
    return replace(job, **changes)


def timeless(results: list[Result]) -> list[Result]:
    return [replace(result, train_seconds=0.0) for result in results]


def stopped_at_every_stretch(work: Callable[[Checkpoints], list[Result]], folder: Path) -> Any:
    """The results of a command that is given no time at all, and how often it was stopped."""
    for stops in range(1000):
        try:
            return work(Checkpoints(folder, deadline=0.0)), stops
        except TimeUp:
            continue
    raise AssertionError("it never came to an end")


def stop_at(stretch: int, job: Job, checkpoints: Checkpoints) -> None:
    """Train a job until its time limit comes in the given stretch."""
    met: list[int] = []

    def report(steps: int) -> None:
        met.append(steps)
        if len(met) == stretch:
            checkpoints.deadline = 0.0

    with pytest.raises(TimeUp):
        train(job, report, checkpoints)


def whole_and_stopped(job: Job, folder: Path) -> tuple[list[Result], list[Result], int]:
    whole = train(job)
    again, stops = stopped_at_every_stretch(lambda c: train(job, checkpoints=c), folder)
    return timeless(whole), timeless(again), stops


PAIRS: dict[str, list[Method]] = {
    "sgd": [SGD(), SGD()],
    "er": [ER(), ER()],
    "derpp": [DERpp(0.3, 0.5), DERpp(0.6, 0.1)],
    "joint": [Joint(), Joint()],
}


@pytest.mark.usefixtures("short_stretches")
class TestContinuing:
    """Equal, bit for bit, to what was never stopped."""

    @pytest.mark.parametrize("kind", METHODS.values(), ids=METHODS)
    def test_every_method_can_be_stopped_at_every_stretch(
        self, kind: type[Method], toy_stream: TaskStream, tmp_path: Path
    ) -> None:
        job = job_of(toy_stream, kind(), kind(), batch=kind.batch or 10)
        whole, again, stops = whole_and_stopped(job, tmp_path)
        assert again == whole
        steps = job.steps if kind.mixes_memory else 7 if kind.needs_all_data else 8 * job.passes
        assert stops == steps, "ten examples are a stretch"
        assert whole[0].matrix != whole[1].matrix

    @pytest.mark.parametrize("method", PAIRS)
    def test_statistics_and_dropout_over_several_epochs(
        self, method: str, toy_stream: TaskStream, tmp_path: Path
    ) -> None:
        job = job_of(toy_stream, *PAIRS[method], network=normalised, epochs=2)
        whole, again, stops = whole_and_stopped(job, tmp_path)
        assert again == whole
        assert stops == job.steps

    def test_images_are_cropped_as_if_nothing_had_happened(self, tmp_path: Path) -> None:
        job = job_of(photographs(), *PAIRS["derpp"], network=convolutional, epochs=2)
        whole, again, stops = whole_and_stopped(job, tmp_path)
        assert again == whole
        assert stops == job.steps == 8

    def test_stopped_once_anywhere(self, toy_stream: TaskStream, tmp_path: Path) -> None:
        job = job_of(toy_stream, *PAIRS["derpp"])
        whole = timeless(train(job))
        for stretch in range(1, 9):
            folder = tmp_path / str(stretch)
            stop_at(stretch, job, Checkpoints(folder))
            reported: list[int] = []
            assert timeless(train(job, reported.append, Checkpoints(folder))) == whole
            assert reported == [stretch] + [1] * (8 - stretch)
            assert [path.suffix for path in folder.iterdir()] == [".json"], "the state is gone"

    def test_everything_that_learning_changes_is_the_same(
        self, toy_stream: TaskStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Weights, statistics and memory, and not only the accuracies they lead to."""
        fleets: list[Fleet] = []

        class Noted(Fleet):
            def __init__(self, *given: Any, **named: Any) -> None:
                super().__init__(*given, **named)
                fleets.append(self)

        monkeypatch.setattr("recollect.train.loop.Fleet", Noted)
        job = job_of(toy_stream, *PAIRS["derpp"], network=normalised)
        whole_and_stopped(job, tmp_path)
        whole, last = fleets[0].tensors(), fleets[-1].tensors()
        assert len(fleets) == job.steps + 2
        assert {name.split(".")[0] for name in whole} >= {"weights", "buffers", "memory"}
        for name, tensor in whole.items():
            assert torch.equal(tensor, last[name]), name
        assert (fleets[0].seen, fleets[0].steps) == (fleets[-1].seen, fleets[-1].steps)

    def test_a_run_that_diverged_is_still_said_to_have(
        self, toy_stream: TaskStream, tmp_path: Path
    ) -> None:
        job = job_of(toy_stream, SGD(), SGD())
        job = replace(job, runs=(job.runs[0], replace(job.runs[1], lr=1e30)))
        whole, again, _ = whole_and_stopped(job, tmp_path)
        assert [run.diverged for run in again] == [False, True]
        assert again == whole

    def test_the_time_of_all_parts_is_counted(self, toy_stream: TaskStream, tmp_path: Path) -> None:
        job = job_of(toy_stream, ER(), ER())
        stop_at(8, job, Checkpoints(tmp_path))
        saved = Checkpoints(tmp_path).saved(fingerprint(job))
        assert saved is not None
        assert saved.facts["seconds"] > 0
        for result in train(job, checkpoints=Checkpoints(tmp_path)):
            assert 0 <= 2 * result.train_seconds - saved.facts["seconds"] < 0.5  # the task's end

    def test_the_message_names_the_steps(self, toy_stream: TaskStream, tmp_path: Path) -> None:
        job = job_of(toy_stream, SGD(), epochs=200)
        checkpoints = Checkpoints(tmp_path, deadline=0.0)
        for step in (1, 2):
            with pytest.raises(TimeUp, match=f"after {step} of 1,600 steps; the same command"):
                train(job, checkpoints=checkpoints)

    def test_torchs_generator_is_left_alone(self, toy_stream: TaskStream, tmp_path: Path) -> None:
        job = job_of(toy_stream, *PAIRS["er"], network=normalised)
        before = torch.random.get_rng_state()
        stop_at(2, job, Checkpoints(tmp_path))
        train(job, checkpoints=Checkpoints(tmp_path))
        assert torch.equal(before, torch.random.get_rng_state())


CHANGES: dict[str, Callable[[Job], Job]] = {
    "seed": lambda job: with_runs(job, seed=9),
    "lr": lambda job: with_runs(job, lr=0.07),
    "alpha": lambda job: with_runs(job, method=DERpp(0.4, 0.5)),
    "method": lambda job: replace(job, runs=tuple(replace(r, method=ER()) for r in job.runs)),
    "fewer runs": lambda job: replace(job, runs=job.runs[:1]),
    "order of runs": lambda job: replace(job, runs=job.runs[::-1]),
    "buffer": lambda job: replace(job, buffer=11),
    "batch": lambda job: replace(job, batch=9),
    "replay": lambda job: replace(job, replay=4),
    "epochs": lambda job: replace(job, epochs=3),
    "validation": lambda job: replace(job, validation=True),
    "width": lambda job: replace(job, network=partial(MLP, 6, 4, hidden=(7,))),
    "layers": lambda job: replace(job, network=normalised),
    "module": lambda job: replace(job, network=module(0)),
    "name of stream": lambda job: replace(job, stream=renamed(job.stream)),
}


def with_runs(job: Job, **changes: Any) -> Job:
    return replace(job, runs=tuple(replace(run, **changes) for run in job.runs[:1]) + job.runs[1:])


def renamed(stream: Stream) -> Stream:
    assert isinstance(stream, TaskStream)
    return replace(stream, name="other")


def module(seed: int) -> nn.Module:
    """A network from whose weights every run starts."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return mlp()


@pytest.mark.usefixtures("short_stretches")
class TestWhoseState:
    """A state is for the job that it belongs to."""

    @pytest.mark.parametrize("change", CHANGES)
    def test_of_another_job_is_not_used(
        self, change: str, toy_stream: TaskStream, tmp_path: Path
    ) -> None:
        job = job_of(toy_stream, DERpp(0.3, 0.5), DERpp(0.3, 0.5))
        other = CHANGES[change](job)
        stop_at(3, job, Checkpoints(tmp_path))
        for started, steps in ((other, [1]), (other, [1, 1]), (job, [3, 1])):
            reported: list[int] = []
            with pytest.raises(TimeUp):
                train(started, reported.append, Checkpoints(tmp_path, deadline=0.0))
            assert reported == steps

    def test_two_jobs_in_one_folder_end_as_they_would_alone(
        self, toy_stream: TaskStream, tmp_path: Path
    ) -> None:
        one = job_of(toy_stream, DERpp(0.3, 0.5), DERpp(0.3, 0.5))
        other = CHANGES["width"](one)
        for job in (one, other):
            stop_at(3, job, Checkpoints(tmp_path))
        for job in (one, other):
            again = train(job, checkpoints=Checkpoints(tmp_path))
            assert timeless(again) == timeless(train(job))

    def test_two_modules_of_one_kind_are_told_apart_by_their_weights(
        self, toy_stream: TaskStream, tmp_path: Path
    ) -> None:
        jobs = [job_of(toy_stream, ER(), network=module(seed)) for seed in (0, 1)]
        stop_at(3, jobs[0], Checkpoints(tmp_path))
        again = train(jobs[1], checkpoints=Checkpoints(tmp_path))
        assert timeless(again) == timeless(train(jobs[1]))
        same = job_of(toy_stream, ER(), network=module(0))
        assert fingerprint(same) == fingerprint(jobs[0])

    def test_what_is_no_network_is_refused_as_ever(
        self, toy_stream: TaskStream, tmp_path: Path
    ) -> None:
        for wrong in (lambda: 3, 3):
            job = job_of(toy_stream, ER(), network=wrong)
            with pytest.raises(InputError, match=r"must be a torch\.nn\.Module"):
                train(job, checkpoints=Checkpoints(tmp_path))

    def test_a_command_has_a_folder_of_its_own(
        self, toy_stream: TaskStream, tmp_path: Path
    ) -> None:
        kept = Checkpoints(tmp_path, every=7.0, deadline=3.0)
        jobs = [job_of(toy_stream, ER()), job_of(toy_stream, SGD())]
        mine = kept.of(jobs)
        assert mine.folder.parent == tmp_path
        assert (mine.every, mine.deadline) == (7.0, 3.0)
        assert mine.folder == kept.of(list(jobs)).folder
        assert len({kept.of(some).folder for some in (jobs, jobs[:1], jobs[::-1])}) == 3


def some_state(value: float = 1.5) -> Saved:
    tensors = {"weights.a": torch.full((2, 3), value), "memory.x": torch.arange(6).byte()}
    return Saved({"task": 1, "rows": {"class": [[[0.1, None]]]}}, tensors)


def same(ours: Saved | None, theirs: Saved) -> bool:
    return (
        ours is not None
        and ours.facts == theirs.facts
        and ours.tensors.keys() == theirs.tensors.keys()
        and all(equal(tensor, theirs.tensors[name]) for name, tensor in ours.tensors.items())
    )


def equal(ours: Tensor, theirs: Tensor) -> bool:
    return ours.dtype == theirs.dtype and torch.equal(ours, theirs)


class Crash(BaseException):
    """The machine goes down."""


class TestFiles:
    """A file is whole or absent, and only data."""

    def test_what_is_read_is_what_was_written(self, tmp_path: Path) -> None:
        tmp_path = tmp_path / "not" / "there"
        assert Checkpoints(tmp_path).saved(NAME) is None
        state = some_state()
        turned = torch.arange(6.0).view(2, 3).t()
        state = replace(state, tensors={**state.tensors, "turned": turned, "one": torch.tensor(7)})
        Checkpoints(tmp_path).save(NAME, state)
        assert same(Checkpoints(tmp_path).saved(NAME), state)
        assert Checkpoints(tmp_path).saved("other") is None

    @pytest.mark.parametrize("kept", [0, 1, 7, 8, 60, -40, -1])
    def test_a_truncated_file_counts_as_none(self, kept: int, tmp_path: Path) -> None:
        checkpoints = Checkpoints(tmp_path)
        checkpoints.save(NAME, some_state())
        (file,) = tmp_path.iterdir()
        file.write_bytes(file.read_bytes()[:kept])
        assert checkpoints.saved(NAME) is None

    @pytest.mark.parametrize(
        "damage",
        [
            lambda data: b"\xff" * len(data),
            lambda data: data[:8] + b"?" + data[9:],
            lambda data: data + b"more",
            lambda data: data.replace(b'"task"', b'"task\xff'),
            lambda data: data.replace(b'"rows"', b'"rows'),
            lambda data: safetensors.torch.save({"weights.a": torch.ones(2)}),
            lambda data: safetensors.torch.save({"facts": torch.tensor([123, 7]).byte()}),
        ],
    )
    def test_a_damaged_file_counts_as_none(
        self, damage: Callable[[bytes], bytes], tmp_path: Path
    ) -> None:
        checkpoints = Checkpoints(tmp_path)
        checkpoints.save(NAME, some_state())
        (file,) = tmp_path.iterdir()
        damaged = damage(file.read_bytes())
        assert damaged != file.read_bytes()
        file.write_bytes(damaged)
        assert checkpoints.saved(NAME) is None

    @pytest.mark.usefixtures("short_stretches")
    def test_a_job_with_a_damaged_state_starts_over(
        self, toy_stream: TaskStream, tmp_path: Path
    ) -> None:
        job = job_of(toy_stream, *PAIRS["er"])
        stop_at(4, job, Checkpoints(tmp_path))
        (file,) = tmp_path.iterdir()
        file.write_bytes(file.read_bytes()[:-30])
        reported: list[int] = []
        assert timeless(train(job, reported.append, Checkpoints(tmp_path))) == timeless(train(job))
        assert reported == [1] * 8

    @pytest.mark.usefixtures("short_stretches")
    def test_damaged_results_count_as_none(self, toy_stream: TaskStream, tmp_path: Path) -> None:
        job = job_of(toy_stream, ER())
        results = train(job, checkpoints=Checkpoints(tmp_path))
        (file,) = tmp_path.iterdir()
        assert Checkpoints(tmp_path).results(fingerprint(job)) == results
        for damaged in ("", "[", "[]", "3", '["a"]', '[{"seed": 0}]'):
            file.write_text(damaged)
            assert Checkpoints(tmp_path).results(fingerprint(job)) is None
        assert timeless(train(job, checkpoints=Checkpoints(tmp_path))) == timeless(results)

    @pytest.mark.parametrize("where", ["os.fsync", "pathlib.Path.replace", "half of it"])
    def test_a_crash_while_writing_leaves_the_state_before(
        self, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        checkpoints = Checkpoints(tmp_path)
        checkpoints.save(NAME, some_state(1.0))
        whole = Path.write_bytes

        def crash(*_: object) -> None:
            raise Crash

        def write_half(path: Path, data: bytes) -> None:
            whole(path, data[: len(data) // 2])
            raise Crash

        with monkeypatch.context() as patch:
            if where == "half of it":
                patch.setattr(Path, "write_bytes", write_half)
            else:
                patch.setattr(where, crash)
            with pytest.raises(Crash):
                checkpoints.save(NAME, some_state(2.0))
        assert same(Checkpoints(tmp_path).saved(NAME), some_state(1.0))
        assert len(list(tmp_path.iterdir())) == 1, "nothing is left lying about"
        checkpoints.save(NAME, some_state(3.0))
        assert same(Checkpoints(tmp_path).saved(NAME), some_state(3.0))

    def test_the_file_has_its_name_only_when_all_of_it_is_on_the_disk(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        happened: list[str] = []
        fsync, rename = os.fsync, Path.replace

        def noted_fsync(number: int) -> None:
            assert os.fstat(number).st_size > 100
            happened.append("on disk")
            fsync(number)

        def noted_rename(path: Path, target: Path) -> Path:
            happened.append("named")
            return rename(path, target)

        monkeypatch.setattr(os, "fsync", noted_fsync)
        monkeypatch.setattr(Path, "replace", noted_rename)
        Checkpoints(tmp_path).save(NAME, some_state())
        assert happened == ["on disk", "named"]

    @pytest.mark.usefixtures("short_stretches")
    def test_it_is_safetensors_and_nothing_is_ever_unpickled(
        self, toy_stream: TaskStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise AssertionError("loading must not execute code")

        job = job_of(toy_stream, *PAIRS["derpp"])
        for place in ("pickle.load", "pickle.loads", "pickle.dump", "pickle.dumps", "torch.load"):
            monkeypatch.setattr(place, refuse)
        stop_at(4, job, Checkpoints(tmp_path))
        (file,) = tmp_path.iterdir()
        tensors = safetensors.torch.load_file(file)
        assert tensors["memory.x"].shape == (2 * 12 + 1, 6)
        assert tensors["weights.head.weight"].shape == (2, 8, 4)
        assert timeless(train(job, checkpoints=Checkpoints(tmp_path))) == timeless(train(job))

    def test_code_in_the_place_of_a_state_is_not_run(self, tmp_path: Path) -> None:
        class Bomb:
            def __reduce__(self) -> tuple[Any, ...]:
                return Path.touch, (tmp_path / "executed",)

        Checkpoints(tmp_path).save(NAME, some_state())
        (file,) = tmp_path.iterdir()
        file.write_bytes(pickle.dumps(Bomb()))
        assert Checkpoints(tmp_path).saved(NAME) is None
        torch.save(Bomb(), file)
        assert Checkpoints(tmp_path).saved(NAME) is None
        assert list(tmp_path.iterdir()) == [file]
        pickle.loads(pickle.dumps(Bomb()))
        assert (tmp_path / "executed").exists(), "the bomb would have worked"


@pytest.mark.usefixtures("short_stretches")
class TestWhenToSave:
    """Now and then, and when the time limit comes."""

    def test_it_is_due_again_after_a_while(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock = SimpleNamespace(now=1000.0)
        clock.monotonic = lambda: clock.now
        monkeypatch.setattr("recollect.train.checkpoint.time", clock)
        checkpoints = Checkpoints(tmp_path, every=60.0, deadline=1090.0)
        checkpoints.save(NAME, some_state())
        moments = {}
        for clock.now in (1000.0, 1059.9, 1060.0, 1089.9, 1090.0):
            moments[clock.now] = (checkpoints.due(), checkpoints.time_is_up())
        assert moments == {
            1000.0: (False, False),
            1059.9: (False, False),
            1060.0: (True, False),
            1089.9: (True, False),
            1090.0: (True, True),
        }
        checkpoints.save(NAME, some_state())
        assert not checkpoints.due()

    def test_a_new_one_is_not_due_and_has_no_limit(self, tmp_path: Path) -> None:
        checkpoints = Checkpoints(tmp_path)
        assert not checkpoints.due()
        assert not checkpoints.time_is_up()

    def test_state_is_saved_at_intervals_without_a_limit(
        self, toy_stream: TaskStream, tmp_path: Path
    ) -> None:
        """A process that is killed loses no more than what came after the last time."""
        job = job_of(toy_stream, *PAIRS["derpp"])
        met: list[int] = []

        def crash_in_the_sixth(steps: int) -> None:
            met.append(steps)
            if len(met) == 6:
                raise Crash

        with pytest.raises(Crash):
            train(job, crash_in_the_sixth, Checkpoints(tmp_path, every=0.0))
        reported: list[int] = []
        again = train(job, reported.append, Checkpoints(tmp_path))
        assert reported == [5, 1, 1, 1]
        assert timeless(again) == timeless(train(job))

    def test_a_short_job_saves_no_state(self, toy_stream: TaskStream, tmp_path: Path) -> None:
        saved: list[list[Path]] = []
        train(
            job_of(toy_stream, ER()),
            lambda steps: saved.append(list(tmp_path.iterdir())),
            Checkpoints(tmp_path, every=1e9),
        )
        assert saved == [[]] * 8

    def test_a_folder_that_cannot_be_written_costs_no_results(
        self, toy_stream: TaskStream, tmp_path: Path
    ) -> None:
        (tmp_path / "file").touch()
        job = job_of(toy_stream, ER())
        nowhere = Checkpoints(tmp_path / "file" / "folder")
        assert timeless(train_all([job], workers=1, checkpoints=nowhere)) == timeless(train(job))

    def test_a_state_that_cannot_be_saved_is_an_error_that_helps(
        self, toy_stream: TaskStream, tmp_path: Path
    ) -> None:
        (tmp_path / "file").touch()
        nowhere = Checkpoints(tmp_path / "file" / "folder", deadline=0.0)
        with pytest.raises(RecollectError, match=r"cannot be saved in .*folder: Not a dir") as no:
            train(job_of(toy_stream, ER()), checkpoints=nowhere)
        assert not isinstance(no.value, TimeUp)
        assert "\n" not in str(no.value)


@pytest.mark.usefixtures("short_stretches")
class TestSeveralJobs:
    """A command is all its jobs."""

    def jobs(self, stream: TaskStream) -> list[Job]:
        return [
            job_of(stream, *(DERpp(0.1 * k, 0.5) for k in range(4))),
            job_of(stream, ER()),
            job_of(stream, Joint()),
        ]

    @pytest.mark.parametrize("workers", [1, 2])
    def test_stopped_and_continued_to_equal_results(
        self,
        workers: int,
        toy_stream: TaskStream,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr("recollect.train.loop.STRETCH", 20)
        jobs = self.jobs(toy_stream)
        folder = tmp_path / "command"
        whole = train_all(jobs, workers=workers)
        told: list[int] = []

        def attempt(checkpoints: Checkpoints) -> list[Result]:
            told.clear()
            return train_all(
                jobs,
                workers=workers,
                progress=lambda job, steps: told.append(steps),
                checkpoints=checkpoints,
            )

        again, stops = stopped_at_every_stretch(attempt, folder)
        assert timeless(again) == timeless(whole)
        assert stops >= 4
        assert sum(told) == sum(job.total_steps for job in jobs), "what was done before counts"
        assert list(tmp_path.iterdir()) == []

    def test_finished_jobs_are_kept_until_all_is_done(
        self, toy_stream: TaskStream, tmp_path: Path
    ) -> None:
        jobs = self.jobs(toy_stream)
        folder = tmp_path / "command"
        checkpoints = Checkpoints(folder)
        first: list[Result] = []

        def stop_after_the_first(job: Job, results: list[Result]) -> None:
            first.extend(results)
            checkpoints.deadline = 0.0

        with pytest.raises(TimeUp, match="after 1 of 8 steps"):
            train_all(jobs, workers=1, finished=stop_after_the_first, checkpoints=checkpoints)
        assert len(first) == 4
        assert sorted(path.suffix for path in folder.iterdir()) == [".json", ".safetensors"]
        ended: list[list[Result]] = []
        results = train_all(
            jobs,
            workers=1,
            finished=lambda job, results: ended.append(results),
            checkpoints=Checkpoints(folder),
        )
        assert results[:4] == first, "even the time it took: it was not trained again"
        assert [len(each) for each in ended] == [4, 1, 1]
        assert timeless(results) == timeless(train_all(jobs, workers=1))
        assert not folder.exists()

    @pytest.mark.parametrize("workers", [1, 2])
    def test_no_job_begins_after_the_time_limit(
        self, workers: int, toy_stream: TaskStream, tmp_path: Path
    ) -> None:
        jobs = [job_of(toy_stream, ER(), epochs=number + 1) for number in range(6)]
        began: set[int] = set()
        with pytest.raises(TimeUp):
            train_all(
                jobs,
                workers=workers,
                progress=lambda job, steps: began.add(job.epochs),
                checkpoints=Checkpoints(tmp_path, deadline=0.0),
            )
        assert 1 <= len(began) <= workers
        assert len(list(tmp_path.iterdir())) == len(began)

    def test_an_error_leaves_what_was_saved(self, toy_stream: TaskStream, tmp_path: Path) -> None:
        jobs = self.jobs(toy_stream)
        folder = tmp_path / "command"

        def fail(job: Job, results: list[Result]) -> None:
            raise Crash

        with pytest.raises(Crash):
            train_all(jobs, workers=1, finished=fail, checkpoints=Checkpoints(folder))
        assert len(list(folder.iterdir())) == 1
