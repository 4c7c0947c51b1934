"""How long a table takes is told before it starts, and which method takes most of it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import pytest

from recollect import InputError
from recollect.cli.main import main
from recollect.experiments.estimate import seconds_by_method
from recollect.experiments.reproduce import Cell, cells, plans_of
from recollect.streams import benchmark
from recollect.train import Job

DIGITS = ["reproduce", "seq-digits", "--seeds", "2", "--device", "cpu", "--workers", "1"]


def not_now(*arguments: Any) -> None:
    raise InputError("it would train now")


def jobs_of(*rows: Cell) -> list[Job]:
    known = benchmark("seq-digits")
    stream = known.stream()
    return [job for plan in plans_of(known, rows, [0]) for job in plan.jobs(stream)]


def test_every_method_has_its_share() -> None:
    jobs = jobs_of(Cell("sgd", None), Cell("er", 20), Cell("er", 50))
    found = seconds_by_method(jobs, 1)
    assert list(found) == ["sgd", "er"]
    assert all(seconds > 0 for seconds in found.values())
    assert seconds_by_method([], 1) == {}


def test_a_table_says_before_how_long_it_takes_and_what_to_leave_out(
    bare_machine: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recollect.cli.training.Training.train", not_now)
    assert main(DIGITS) == 2
    time, hint, last = capsys.readouterr().err.splitlines()
    assert time.startswith("recollect: estimated training time: about ")
    assert time.endswith(", without evaluation")
    assert hint.startswith("recollect: MER takes about ")
    assert last == "recollect: it would train now"
    words = shlex.split(hint.partition("to skip it: ")[2])
    everything = {row.method for row in cells(benchmark("seq-digits"))}
    assert words[0] == "--methods"
    assert set(words[1:]) == everything - {"mer"}
    assert main([*DIGITS, *words]) == 2
    assert capsys.readouterr().err == "recollect: it would train now\n", "who chooses, knows"


def test_what_is_trained_does_not_change(
    bare_machine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def note(self: object, jobs: Sequence[Job], told: object) -> None:
        asked.extend(job.kind.name for job in jobs)
        not_now()

    monkeypatch.setattr("recollect.cli.training.Training.train", note)
    monkeypatch.setattr("recollect.cli.reproduce.seconds_by_method", lambda *_: {"mer": 1.0})
    assert main(DIGITS) == 2
    assert asked == [row.method for row in cells(benchmark("seq-digits"))]
