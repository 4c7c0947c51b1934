"""When unfinished work is saved, and several jobs of one command."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.builders import stopped_at_every_stretch, timeless
from tests.train.stopping import (
    NAME,
    PAIRS,
    Crash,
    job_of,
    some_state,
)

from recollect import ER, DERpp, Joint, RecollectError
from recollect.streams import TaskStream
from recollect.train import Checkpoints, Job, Result, TimeUp, train, train_all

pytestmark = pytest.mark.usefixtures("no_hang", "short_stretches")


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
        monkeypatch.setattr("recollect.train.source.STRETCH", 20)
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
