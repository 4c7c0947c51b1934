"""Progress without a terminal: a line every minute."""

import pytest
from tests.train.stopping import job_of

from recollect import ER
from recollect.cli.progress import Lines, showing_progress
from recollect.streams import TaskStream
from recollect.train import Job


@pytest.fixture
def job(toy_stream: TaskStream) -> Job:
    return job_of(toy_stream, ER())


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_log_has_a_line_every_minute(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    lines = Lines(10_000, clock)
    for second in range(180):
        clock.now = second + 1.0
        lines(job, 10)
    said = capsys.readouterr().err.splitlines()
    where = f"({job.stream.name} er {job.buffer})"
    assert said == [
        f"recollect: 6 % of all steps, about 16 minutes left {where}",
        f"recollect: 12 % of all steps, about 15 minutes left {where}",
        f"recollect: 18 % of all steps, about 14 minutes left {where}",
    ]


def test_steps_of_an_interrupted_command_took_no_time(
    job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock()
    lines = Lines(10_000, clock)
    lines(job, 5000)
    for _ in range(60):
        clock.now += 1
        lines(job, 10)
    assert "56 % of all steps, about 7 minutes left" in capsys.readouterr().err


def test_nothing_is_known_while_nothing_is_trained(
    job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock()
    lines = Lines(0, clock)
    lines(job, 0)
    clock.now = 61.0
    lines(job, 0)
    assert "0 % of all steps, an unknown time left" in capsys.readouterr().err


def test_short_commands_say_nothing(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    with showing_progress([job]) as advance:
        advance(job, job.total_steps)
    assert capsys.readouterr().err == ""
