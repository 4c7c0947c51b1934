"""`recollect.run` with a folder for its state, and the paper's figures for a single epoch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.experiments.some_results import PLAIN

import recollect
from recollect import InputError, Results
from recollect.experiments.paper import Published
from recollect.experiments.reproduce import Cell, cells, compare, metric_of, plans_of
from recollect.streams import TaskStream, benchmark
from recollect.train import Result, TimeUp

MOMENT = 1e-9


def run(stream: TaskStream, **given: Any) -> Results:
    settings: dict[str, Any] = {"buffer": 12, "seeds": 2, "lr": 0.1, "device": "cpu"}
    return recollect.run(stream, "derpp", **{"workers": 1, **settings, **given})


def timeless(results: Results) -> list[Result]:
    return [replace(result, train_seconds=0.0) for result in results]


@pytest.mark.parametrize(("name", "workers"), [(str, 1), (Path, 2)])
def test_a_call_that_is_stopped_continues(
    name: type, workers: int, toy_stream: TaskStream, tmp_path: Path
) -> None:
    given = {"workers": workers, "epochs": 2, "checkpoint": name(tmp_path / "state")}
    for _ in range(4):  # two tasks of two epochs
        with pytest.raises(TimeUp, match=r"stopped by the time limit after \d+ of 16 steps"):
            run(toy_stream, time_limit=MOMENT, **given)
        (folder,) = (tmp_path / "state").iterdir()
        assert list(folder.glob("*.safetensors"))
    results = run(toy_stream, time_limit=MOMENT, **given)
    assert timeless(results) == timeless(run(toy_stream, epochs=2, workers=workers))
    assert list((tmp_path / "state").iterdir()) == []


def test_calls_that_differ_share_a_folder_in_peace(toy_stream: TaskStream, tmp_path: Path) -> None:
    with pytest.raises(TimeUp):
        run(toy_stream, checkpoint=tmp_path, time_limit=MOMENT)
    for change in ({"lr": 0.2}, {"seeds": [5]}):
        other = run(toy_stream, checkpoint=tmp_path, **change)
        assert timeless(other) == timeless(run(toy_stream, **change))
    assert len(list(tmp_path.iterdir())) == 1
    again = run(toy_stream, checkpoint=tmp_path, time_limit=3600)
    assert timeless(again) == timeless(run(toy_stream))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("limit", [0, -1, -0.5, float("nan"), float("inf"), -float("inf")])
def test_a_limit_that_cannot_be_meant_is_refused(limit: float, tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="time limit must be a number of seconds above 0"
    ) as refused:
        recollect.run(
            "seq-mnist", "sgd", time_limit=limit, checkpoint=tmp_path, data_dir=tmp_path / "nowhere"
        )
    assert f"not {limit:g}" in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_a_limit_needs_a_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a time limit needs a folder to save the state in"):
        recollect.run("seq-mnist", "sgd", time_limit=60, data_dir=tmp_path / "nowhere")


@pytest.mark.parametrize("device", ["abacus", "cuda:99"])
def test_a_device_is_checked_before_data_are_looked_for(device: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="device"):
        recollect.run("seq-mnist", "sgd", device=device, data_dir=tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["seq-cifar10", "seq-tiny-imagenet"])
def test_the_paper_has_tables_for_all_epochs_and_for_one(name: str) -> None:
    known = benchmark(name)
    assert metric_of(known, None) == metric_of(known, known.epochs) == "accuracy"
    assert metric_of(known, 1) == "accuracy-single-epoch"
    assert metric_of(known, 2) is None


@pytest.mark.parametrize("name", ["seq-mnist", "seq-digits", "mnist-360"])
def test_where_one_epoch_is_the_papers_choice_there_is_one_table(name: str) -> None:
    known = benchmark(name)
    assert metric_of(known, 1) == metric_of(known, None) == "accuracy"
    assert metric_of(known, 50) is None
    assert cells(known, epochs=1) == cells(known)


def test_the_rows_for_one_epoch_are_those_that_the_paper_has() -> None:
    known = benchmark("seq-cifar10")
    rows = cells(known, epochs=1)
    names = {row.method for row in rows}
    assert {"joint", "er", "derpp"} <= names <= {"joint", "er", "fdr", "derpp"}
    assert Cell("joint", None) in rows
    assert [row.buffer for row in rows if row.method == "derpp"] == [200, 500, 5120]
    assert {"sgd", "der"} <= {row.method for row in cells(known)}
    assert cells(known, ["der"], [7], epochs=1) == [Cell("der", 7)], "what is asked for is made"
    (plan,) = plans_of(known, [Cell("derpp", 200)], [0], 1)
    assert plan.epochs == 1
    (plan,) = plans_of(known, [Cell("derpp", 200)], [0])
    assert plan.epochs == 50


@pytest.mark.parametrize(
    ("epochs", "setting", "paper"),
    [
        (50, "class", Published(64.88, 1.17)),
        (50, "task", Published(91.92, 0.60)),
        (1, "class", Published(41.93, None)),
        (1, "task", None),
        (7, "class", None),
    ],
)
def test_a_run_is_compared_with_runs_of_as_many_epochs(
    epochs: int, setting: str, paper: Published | None
) -> None:
    result = replace(
        PLAIN, benchmark="seq-cifar10", accuracy={"class": 42.0, "task": 92.0}, epochs=epochs
    )
    (summary,) = Results([result]).summaries()
    compared = compare(benchmark("seq-cifar10"), summary, setting)
    assert compared.paper == paper
    no_deviation = paper is None or paper.std is None  # a single run has none either
    assert (compared.verdict is None) == no_deviation
