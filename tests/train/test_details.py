"""Curves, confusion matrices and callbacks: what they say, and that they change nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.builders import timeless, whole_and_stopped
from tests.train.stopping import PAIRS, job_of

from recollect import SGD, Callback, DataError, DERpp, InputError
from recollect.experiments.files import read_json, write_runs
from recollect.streams import TaskStream
from recollect.train import Details, Point, Result, Run, accuracy, train, train_all

CURVES = Details(curves=3, examples=1000, confusion=True)


def plain(results: list[Result]) -> list[Result]:
    return [replace(each, curves=None, confusion=None) for each in timeless(results)]


class Noted(Callback):
    """Notes every call, and measures in some."""

    every = 3
    only_observes = True

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, int]] = []
        self.measured: list[dict[str, Any]] = []

    def note(self, name: str, point: Point) -> None:
        assert point.loss.shape == point.fleet.seeds.shape
        self.calls.append((name, point.task, point.clock.steps))

    def on_task_start(self, point: Point) -> None:
        self.note("start", point)

    def on_steps(self, point: Point) -> None:
        self.note("steps", point)
        found = accuracy(point.fleet, point.stream, range(point.task + 1))
        self.measured.append({name: percent.tolist() for name, percent in found.items()})

    def on_task_end(self, point: Point) -> None:
        self.note("end", point)

    def on_run_end(self, point: Point) -> None:
        self.note("run end", point)


@pytest.mark.parametrize("name", PAIRS)
def test_recording_and_calling_change_no_result(name: str, toy_stream: TaskStream) -> None:
    job = job_of(toy_stream, *PAIRS[name], epochs=2)
    watched = replace(job, details=replace(CURVES, callbacks=(Noted(),)))
    assert plain(train(watched)) == timeless(train(job))


def test_callbacks_come_in_order(toy_stream: TaskStream) -> None:
    noted = Noted()
    train(job_of(toy_stream, SGD(), SGD(), details=Details(callbacks=(noted,))))
    assert noted.calls == [
        ("start", 0, 0), ("steps", 0, 3), ("end", 0, 4),
        ("start", 1, 4), ("steps", 1, 6), ("end", 1, 8), ("run end", 1, 8),
    ]  # fmt: skip


def test_curves_are_what_a_callback_measures_and_end_with_the_matrix(
    toy_stream: TaskStream,
) -> None:
    noted = Noted()
    job = job_of(toy_stream, *PAIRS["derpp"], details=replace(CURVES, callbacks=(noted,)))
    for run, result in enumerate(train(job)):
        curves = result.curves
        assert curves is not None
        assert (curves.steps, curves.tasks) == ([3, 4, 6, 8], [0, 0, 1, 1])
        assert len(curves.loss) == 4
        for setting, rows in curves.accuracy.items():
            within = [measured[setting][run] for measured in noted.measured]
            assert [rows[0], rows[2]] == within
            assert [rows[1], rows[3]] == [result.matrix[setting][0][:1], result.matrix[setting][1]]
            means = [rows[0][0], rows[1][0], sum(rows[2]) / 2, sum(rows[3]) / 2]
            expected = (3 * means[0] + means[1] + 2 * means[2] + 2 * means[3]) / 8
            assert result.anytime_accuracy[setting] == pytest.approx(expected)
            average = (means[1] + means[3]) / 2
            assert result.average_incremental_accuracy[setting] == pytest.approx(average)


def test_a_point_is_measured_on_a_sample(toy_stream: TaskStream) -> None:
    job = job_of(toy_stream, SGD(), details=Details(curves=3, examples=4))
    curves = train(job)[0].curves
    assert curves is not None
    assert {value % 25 for value in curves.accuracy["class"][0]} == {0}


def test_joint_training_is_measured_on_all_tasks(toy_stream: TaskStream) -> None:
    (result, _) = train(job_of(toy_stream, *PAIRS["joint"], details=CURVES))
    assert result.curves is not None
    assert {len(row) for row in result.curves.accuracy["class"]} == {2}
    assert result.average_incremental_accuracy == {"class": None, "task": None}


def test_confusion_counts_every_test_example(toy_stream: TaskStream) -> None:
    for result in train(job_of(toy_stream, *PAIRS["er"], details=CURVES)):
        assert result.confusion is not None
        for setting in ("class", "task"):
            counts = torch.tensor(result.confusion[setting])
            assert counts.sum(1).tolist() == [10, 10, 10, 10]
            right = 100 * counts.trace().item() / 40
            assert result.accuracy[setting] == pytest.approx(right)
            assert result.class_accuracy[setting] == [10 * n for n in counts.diagonal().tolist()]
        of_task = torch.tensor(result.confusion["task"])
        assert of_task[0, [1, 3]].sum() == of_task[1, [0, 2]].sum() == 0


def test_a_loss_that_is_not_finite_is_none(toy_stream: TaskStream) -> None:
    (result,) = train(job_of(toy_stream, SGD(), runs=(Run(0, 1e30, SGD()),), details=CURVES))
    assert result.diverged
    assert result.curves is not None
    assert result.curves.loss[-1] is None
    json.dumps(result.as_json(), allow_nan=False)


@pytest.mark.usefixtures("short_stretches")
def test_a_stopped_job_has_the_same_curves(toy_stream: TaskStream, tmp_path: Path) -> None:
    whole, again, stops = whole_and_stopped(
        job_of(toy_stream, *PAIRS["derpp"], details=CURVES), tmp_path
    )
    assert stops > 3
    assert again == whole


def test_files_have_them_only_if_they_were_asked_for(
    toy_stream: TaskStream, tmp_path: Path
) -> None:
    job = job_of(toy_stream, DERpp(0.3, 0.5))
    (off,), (on,) = train(job), train(replace(job, details=CURVES))
    added = {"curves", "confusion"}
    assert on.as_json().keys() - off.as_json().keys() == added
    assert not off.as_json().keys() & {*added, "network_file"}
    assert on.identity == off.identity
    file = tmp_path / "runs.json"
    write_runs(file, [on, off])
    assert read_json(file) == [on, off]


@pytest.mark.parametrize(
    "change", [{"steps": [1]}, {"loss": ["low"] * 4}, {"every": 0}, {"more": 1}, {"tasks": []}]
)
def test_damaged_curves_are_refused(
    change: dict[str, Any], toy_stream: TaskStream, tmp_path: Path
) -> None:
    (run,) = train(job_of(toy_stream, SGD(), details=CURVES))
    data = json.loads(json.dumps(run.as_json()))
    data["curves"] |= change
    (tmp_path / "runs.json").write_text(json.dumps([data]))
    with pytest.raises(DataError, match="curves"):
        read_json(tmp_path / "runs.json")


def test_unfinished_jobs_with_other_details_are_apart(toy_stream: TaskStream) -> None:
    job = job_of(toy_stream, SGD())
    assert job.key == replace(job, details=Details(callbacks=(Noted(),))).key
    others = [Details(curves=3), Details(curves=4), Details(confusion=True)]
    assert len({job.key, *(replace(job, details=each).key for each in others)}) == 4


def test_callbacks_do_not_go_to_other_processes(toy_stream: TaskStream) -> None:
    job = job_of(toy_stream, SGD(), SGD(), details=Details(callbacks=(Noted(),)))
    with pytest.raises(InputError, match="in this process"):
        train_all([job], workers=2)
    assert len(train_all([job])) == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"curves": -1}, "curves must be a whole number"),
        ({"curves": 2.5}, "curves must be a whole number"),
        ({"curves": 5, "examples": 0}, "at least 1"),
        ({"callbacks": [print]}, "instance of recollect.Callback"),
        ({"callbacks": [type("Never", (Callback,), {"every": 0})()]}, "`every` of Never"),
        ({"networks": "/dev/null/nets"}, "cannot be saved"),
    ],
)
def test_what_cannot_be_recorded_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Details.of(**given)
