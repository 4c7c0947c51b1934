"""Ctrl+C and SIGTERM during training: all is saved, no process stays, and it continues exactly."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.builders import stopped_at_every_stretch, timeless
from tests.train.stopping import job_of

from recollect import ER, SGD, DERpp, Method
from recollect.errors import InputError, Terminated
from recollect.methods import METHODS
from recollect.streams import TaskStream
from recollect.train import Checkpoints, Job, train, train_all
from recollect.train.interrupts import STOPPING, Slices, stop_asked

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX"),
    pytest.mark.usefixtures("no_hang"),
]

SIGNALS = [signal.SIGINT, signal.SIGTERM]
REFUSED = (
    "another process ({}) is training the same runs: wait for it or stop it, then run the same "
    "command again"
)


def jobs(stream: TaskStream) -> list[Job]:
    return [job_of(stream, *(DERpp(0.1 * k, 0.5) for k in range(4))), job_of(stream, ER())]


def signalled(number: int, *, after: int = 1, times: int = 1) -> Callable[[Job, int], None]:
    """Progress that sends this process a signal when it is called for the `after`th time."""
    calls = 0

    def progress(job: Job, steps: int) -> None:
        nonlocal calls
        calls += 1
        if calls == after:
            for _ in range(times):
                os.kill(os.getpid(), number)

    return progress


def ended_by(number: int) -> type[BaseException]:
    return KeyboardInterrupt if number == signal.SIGINT else Terminated


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("number", SIGNALS)
def test_stopped_by_signals_and_continued_to_equal_results(
    number: int,
    workers: int,
    toy_stream: TaskStream,
    tmp_path: Path,
    short_stretches: None,
    capfd: pytest.CaptureFixture[str],
) -> None:
    whole = train_all(jobs(toy_stream), workers=workers)
    handlers = [signal.getsignal(each) for each in SIGNALS]
    folder = tmp_path / "state"
    last = 0
    for _ in range(4):
        with pytest.raises(ended_by(number)) as end:
            train_all(
                jobs(toy_stream), workers=workers, checkpoints=Checkpoints(folder),
                progress=signalled(number, after=2),
            )  # fmt: skip
        taken = re.fullmatch(
            r"\w+ after (\d+) of 40 steps of all runs: they are saved, and the same command "
            r"continues from there",
            str(end.value),
        )
        assert taken
        assert last < int(taken[1]) < 40
        last = int(taken[1])
        assert multiprocessing.active_children() == []
        assert not stop_asked()
        assert [signal.getsignal(each) for each in SIGNALS] == handlers
        assert capfd.readouterr().err.encode().startswith(STOPPING)
    again = train_all(jobs(toy_stream), workers=workers, checkpoints=Checkpoints(folder))
    assert timeless(again) == timeless(whole)
    assert not folder.exists()


@pytest.mark.parametrize("kind", METHODS.values(), ids=METHODS)
def test_every_method_continues_from_the_middle_of_a_stretch(
    kind: type[Method], toy_stream: TaskStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_of(toy_stream, kind(), kind(), batch=kind.needs.batch_size or 10, epochs=2)
    whole = train(job)
    monkeypatch.setattr("recollect.train.loop.stop_asked", lambda: True)
    again, stops = stopped_at_every_stretch(
        lambda saved: train(job, checkpoints=Checkpoints(saved.folder)), tmp_path
    )
    assert stops >= job.steps > 10, "after every batch"
    assert timeless(again) == timeless(whole)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("number", SIGNALS)
def test_without_checkpoints_it_ends_at_once_and_says_so(
    number: int, workers: int, toy_stream: TaskStream, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ended_by(number)) as end:
        train_all(jobs(toy_stream), workers=workers, progress=signalled(number))
    assert multiprocessing.active_children() == []
    words = " of 40 steps of all runs: nothing is saved, because no folder was given as"
    assert words in str(end.value)
    said = capfd.readouterr().err
    if number == signal.SIGTERM:
        assert said == f"recollect: {end.value}\n"
        assert end.value.code == 143  # type: ignore[attr-defined]
    else:
        assert said == ""


@pytest.mark.parametrize("workers", [1, 2])
def test_before_the_first_step_there_is_nothing_to_save(
    workers: int, toy_stream: TaskStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def at_once(given: Iterator[object]) -> closing[Any]:
        os.kill(os.getpid(), signal.SIGINT)
        return closing(given)

    monkeypatch.setattr("recollect.train.parallel.closing", at_once)
    monkeypatch.setattr("recollect.train.parallel.start_worker", None)  # none is to be started
    with pytest.raises(KeyboardInterrupt, match="interrupted before the first step: there was"):
        train_all(jobs(toy_stream), workers=workers, checkpoints=Checkpoints(tmp_path / "state"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_the_second_signal_ends_it_at_once(
    workers: int, toy_stream: TaskStream, tmp_path: Path
) -> None:
    begin = "interrupted and ended at once: the same command starts again"
    with pytest.raises(KeyboardInterrupt, match=begin):
        train_all(
            jobs(toy_stream), workers=workers, checkpoints=Checkpoints(tmp_path / "state"),
            progress=signalled(signal.SIGINT, times=2),
        )  # fmt: skip
    assert multiprocessing.active_children() == []


def test_a_state_that_cannot_be_saved_is_said(toy_stream: TaskStream, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    nowhere = Checkpoints(tmp_path / "file" / "folder")
    with pytest.raises(KeyboardInterrupt, match=r"and they are not saved: .* Not a directory"):
        train_all(
            jobs(toy_stream), workers=1, checkpoints=nowhere, progress=signalled(signal.SIGINT)
        )


def test_slices_take_about_a_second() -> None:
    slices = Slices()
    for seconds, size in [(0.0, 2), (0.0, 4), (1.0, 4), (3.0, 2), (9.0, 1), (9.0, 1), (0.1, 2)]:
        slices.took(seconds, slices.batches)
        assert slices.batches == size
    slices.took(0.0, 1)
    assert slices.batches == 2, "the end of a stretch says nothing about a whole slice"


def test_another_process_with_the_same_runs_is_refused(
    toy_stream: TaskStream, tmp_path: Path
) -> None:
    job = job_of(toy_stream, SGD(), buffer=None)
    checkpoints = Checkpoints(tmp_path / "state")

    def other() -> None:
        try:
            train_all([job], workers=1, checkpoints=checkpoints)
        except InputError as error:
            sys.exit(7 if str(error) == REFUSED.format(os.getppid()) else 8)

    def status(target: Callable[[], None]) -> int | None:
        process = multiprocessing.get_context("fork").Process(target=target)
        process.start()
        process.join()
        return process.exitcode

    with checkpoints.locked():
        assert status(other) == 7
        assert checkpoints.folder.exists()
    assert not checkpoints.folder.exists()
    assert status(other) == 0

    def die() -> None:
        with checkpoints.locked():
            os._exit(3)

    assert status(die) == 3
    assert [path.name for path in checkpoints.folder.iterdir()] == ["lock"]
    assert not checkpoints.any()
    assert len(train_all([job], workers=1, checkpoints=checkpoints)) == 1
    assert not checkpoints.folder.exists()
