"""Stopped and continued: the same results, and only by the job whose state it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.builders import timeless, whole_and_stopped
from tests.train.stopping import (
    NAME,
    PAIRS,
    convolutional,
    job_of,
    mlp,
    normalised,
    photographs,
    some_state,
    stop_at,
)
from torch import nn

from recollect import ER, MLP, SGD, DERpp, InputError, Method
from recollect.methods import METHODS
from recollect.streams import Stream, TaskStream
from recollect.train import Checkpoints, Details, Fleet, Job, TimeUp, train

pytestmark = pytest.mark.usefixtures("no_hang", "short_stretches")


class TestContinuing:
    """Equal, bit for bit, to what was never stopped."""

    @pytest.mark.parametrize("kind", METHODS.values(), ids=METHODS)
    def test_every_method_can_be_stopped_at_every_stretch(
        self, kind: type[Method], toy_stream: TaskStream, tmp_path: Path
    ) -> None:
        job = job_of(toy_stream, kind(), kind(), batch=kind.needs.batch_size or 10)
        whole, again, stops = whole_and_stopped(job, tmp_path)
        assert again == whole
        # All data are one task; 12 exemplars are rehearsed; PackNet retrains for an epoch.
        stretches = {"joint": 7, "icarl": 9, "packnet": 16}.get(kind.name, 8)
        assert stops == stretches, "ten examples are a stretch"
        assert whole[0].matrix != whole[1].matrix

    def test_stopped_within_every_evaluation(
        self, toy_stream: TaskStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        details = Details(confusion=True, curves=3, examples=20)
        job = job_of(toy_stream, *PAIRS["derpp"], details=details)
        _, _, stretches = whole_and_stopped(job, tmp_path / "quick")
        monkeypatch.setattr("recollect.train.loop.SLICE_SECONDS", -1.0)
        whole, again, stops = whole_and_stopped(job, tmp_path / "slow")
        assert again == whole
        assert whole[0].confusion is not None
        assert whole[0].curves is not None
        # Before training, after the first task and at the end, two tasks are evaluated.
        assert stops == stretches + 3

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
        self, toy_stream: TaskStream, tmp_path: Path, trained_fleets: list[Fleet]
    ) -> None:
        """Weights, statistics and memory, and not only the accuracies they lead to."""
        job = job_of(toy_stream, *PAIRS["derpp"], network=normalised)
        whole_and_stopped(job, tmp_path)
        whole, last = trained_fleets[0].tensors(), trained_fleets[-1].tensors()
        assert len(trained_fleets) == job.steps + 2
        assert {name.split(".")[0] for name in whole} >= {"weights", "buffers", "memory"}
        for name, tensor in whole.items():
            assert torch.equal(tensor, last[name]), name
        assert (trained_fleets[0].seen, trained_fleets[0].steps) == (
            trained_fleets[-1].seen,
            trained_fleets[-1].steps,
        )

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
        saved = Checkpoints(tmp_path).saved(job.key)
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
    "data": lambda job: replace(job, stream=other_data(job.stream)),
}


def with_runs(job: Job, **changes: Any) -> Job:
    return replace(job, runs=tuple(replace(run, **changes) for run in job.runs[:1]) + job.runs[1:])


def renamed(stream: Stream) -> Stream:
    assert isinstance(stream, TaskStream)
    return replace(stream, name="other")


def other_data(stream: Stream) -> Stream:
    assert isinstance(stream, TaskStream)
    return replace(stream, train_x=stream.train_x + 1)


def module(seed: int) -> nn.Module:
    """A network from whose weights every run starts."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return mlp()


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

    def test_of_other_code_is_not_used(
        self, toy_stream: TaskStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job = job_of(toy_stream, DERpp(0.3, 0.5))
        stop_at(3, job, Checkpoints(tmp_path))

        def steps_until_stopped() -> list[int]:
            reported: list[int] = []
            with pytest.raises(TimeUp):
                train(replace(job), reported.append, Checkpoints(tmp_path, deadline=0.0))
            return reported

        with monkeypatch.context() as patched:
            patched.setattr("recollect.train.job.code_fingerprint", lambda *kinds: "other")
            assert steps_until_stopped() == [1], "it began anew"
        assert steps_until_stopped() == [3, 1], "its own code continues"

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
        assert same.key == jobs[0].key

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

    def test_a_command_finds_what_other_code_left(
        self, toy_stream: TaskStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        jobs, others = [job_of(toy_stream, ER())], [job_of(toy_stream, SGD())]
        mine = Checkpoints(tmp_path).of(jobs)
        for command in (mine, Checkpoints(tmp_path).of(others)):
            command.save(NAME, some_state())
        assert mine.of_other_code() == []
        monkeypatch.setattr("recollect.train.job.code_fingerprint", lambda *kinds: "other")
        assert Checkpoints(tmp_path).of([replace(jobs[0])]).of_other_code() == [mine.folder]
