"""What many runs come to: means, groups, and a file that is whole or absent."""

from __future__ import annotations

import json
import math
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.experiments.some_results import PLAIN

import recollect
from recollect import InputError, Results
from recollect.experiments import Mean
from recollect.files import check_writable
from recollect.streams import TaskStream
from recollect.train import Result

RUN = replace(
    PLAIN,
    benchmark="toy",
    method="er",
    buffer=20,
    hyperparameters={"lr": 0.1, "bs": 10, "mbs": 10},
    accuracy={"class": 70.0, "task": 90.0},
    fwt={"class": -10.0, "task": None},
    bwt={"class": -20.0, "task": -1.0},
    forgetting={"class": 20.0, "task": 1.0},
    matrix={"class": [[90.0, None], [70.0, 70.0]], "task": [[90.0, None], [90.0, 90.0]]},
    train_seconds=0.5,
)


def scoring(seed: int, percent: float, **others: Any) -> Result:
    return replace(RUN, seed=seed, accuracy={"class": percent, "task": 90.0}, **others)


def strictly(text: str) -> Any:
    """JSON as the standard has it."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(params=["locked folder", "no folder", "a folder", "a file as folder"])
def impossible(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A place where no file can be written."""
    if request.param == "a folder":
        return tmp_path
    if request.param == "no folder":
        return tmp_path / "nowhere" / "x.json"
    if request.param == "a file as folder":
        (tmp_path / "file").touch()
        return tmp_path / "file" / "x.json"
    # Modes alone do not keep root, who may run the tests, from writing.
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    return tmp_path / "x.json"


def test_a_mean_has_the_deviation_of_a_sample() -> None:
    mean = Mean.of([1.0, 2.0, 3.0, 6.0])
    assert mean is not None
    assert (mean.mean, mean.seeds) == (3.0, 4)
    assert mean.std == pytest.approx(math.sqrt(14 / 3))
    assert str(mean) == "3.00 ±2.16"


def test_one_value_has_no_deviation_and_a_missing_one_no_mean() -> None:
    assert Mean.of([4.0]) == Mean(4.0, 0.0, 1)
    assert Mean.of([]) is None
    assert Mean.of([None, None]) is None
    assert Mean.of([1.0, None]) is None
    assert Mean.of([0.0, 0.0]) == Mean(0.0, 0.0, 2)


def test_runs_that_differ_in_their_seed_alone_are_one_group() -> None:
    faster = {"lr": 0.5, "bs": 10, "mbs": 10}
    runs = [
        scoring(0, 60.0),
        scoring(0, 10.0, hyperparameters=faster),
        scoring(1, 80.0, train_seconds=1.5),
        scoring(0, 20.0, buffer=40),
        scoring(0, 30.0, method="der"),
        scoring(0, 40.0, benchmark="other"),
        scoring(0, 50.0, epochs=2),
        scoring(0, 55.0, validation=True),
        scoring(1, 20.0, hyperparameters=dict(reversed(faster.items()))),
    ]
    first, second, *others = Results(runs).summaries()
    assert [run.seed for run in first.runs] == [0, 1]
    assert first.first is runs[0]
    accuracy = first.mean("accuracy", "class")
    assert accuracy is not None
    assert (accuracy.mean, accuracy.seeds) == (70.0, 2)
    assert accuracy.std == pytest.approx(math.sqrt(200))
    assert first.mean("forgetting", "class") == Mean(20.0, 0.0, 2)
    assert first.mean("fwt", "class") == Mean(-10.0, 0.0, 2)
    assert first.mean("fwt", "task") is None
    assert first.mean("bwt", "task") == Mean(-1.0, 0.0, 2)
    assert first.seconds == 1.0
    assert [run.accuracy["class"] for run in second.runs] == [10.0, 20.0]
    assert [len(other.runs) for other in others] == [1, 1, 1, 1, 1]


def low_ones(*accuracies: float, diverged: int | None = None) -> list[int]:
    """The seeds of those that lie far below the others."""
    runs = [scoring(n, value, diverged=n == diverged) for n, value in enumerate(accuracies)]
    (summary,) = Results(runs).summaries()
    return [run.seed for run in summary.far_below]


NINE = (50.0, 52.0, 53.0, 54.0, 55.0, 56.0, 57.0, 58.0, 59.0)


def test_a_run_far_below_the_others_is_found() -> None:
    # The median is 54.5 and the median distance from it 2.5 (robust deviation 3.71): 18.5 below.
    assert low_ones(*NINE, 10.9) == [9]
    assert low_ones(*NINE, 35.9) == [9]
    assert low_ones(*NINE, 36.0) == []
    assert low_ones(*NINE, 99.0) == [], "above is another matter"
    assert low_ones(*NINE, 10.9, 12.0) == [9, 10]


def test_far_below_is_at_least_fifteen_points() -> None:
    # All but one alike: a deviation of zero counts as one point, and five of them are not enough.
    assert low_ones(80.0, 80.0, 80.0, 80.0, 65.0) == []
    assert low_ones(80.0, 80.0, 80.0, 80.0, 64.9) == [4]


def test_runs_that_scatter_widely_are_not_far_below() -> None:
    assert low_ones(20.0, 40.0, 60.0, 80.0, 90.0) == []


def test_three_runs_cannot_tell_which_of_them_is_far_below() -> None:
    assert low_ones(80.0, 80.0, 10.0) == []
    assert low_ones(80.0, 80.0, 80.0, 10.0) == [3]


def test_a_run_that_diverged_is_not_counted_as_far_below_too() -> None:
    assert low_ones(*NINE, 10.9, diverged=9) == []


def test_any_setting_can_show_a_run_far_below() -> None:
    runs = [scoring(n, 20.0) for n in range(5)]
    runs[3] = replace(runs[3], accuracy={**runs[3].accuracy, "task": 50.0})
    (summary,) = Results(runs).summaries()
    assert summary.far_below == (runs[3],)


def test_far_below_is_said_and_in_the_mean() -> None:
    runs = Results([scoring(n, value) for n, value in enumerate((*NINE, 10.9))])
    (summary,) = runs.summaries()
    assert summary.remarks == "1 far below"
    assert summary.mean("accuracy", "class") == Mean.of([*NINE, 10.9])
    assert "(10 seeds, 1 far below; " in str(runs)


def test_results_are_a_sequence_that_prints_a_table() -> None:
    runs = [scoring(0, 60.0), scoring(1, 80.0), replace(RUN, buffer=None, method="sgd")]
    results = Results(runs)
    assert len(results) == 3
    assert list(results) == runs
    assert results[1] == runs[1]
    assert results[-1] == runs[2]
    assert isinstance(results[:2], Results)
    assert list(results[:2]) == runs[:2]
    assert list(results[::-2]) == runs[::-2]
    assert len(results[:2].summaries()) == 1
    assert str(results).splitlines() == [
        "toy er buffer 20: class 70.00 ±14.14 task 90.00 ±0.00 (2 seeds; lr 0.1, bs 10, mbs 10)",
        "toy sgd: class 70.00 task 90.00 (1 seed; lr 0.1, bs 10, mbs 10)",
    ]


def test_the_file_holds_one_object_per_run(toy_stream: TaskStream, tmp_path: Path) -> None:
    results = recollect.run(toy_stream, "derpp", buffer=20, seeds=[5, 1], workers=1)
    results.save(tmp_path / "runs.json")
    written = strictly((tmp_path / "runs.json").read_text("utf-8"))
    assert [each["seed"] for each in written] == [5, 1]
    for each, run in zip(written, results, strict=True):
        assert (each["benchmark"], each["method"], each["buffer"]) == ("toy", "derpp", 20)
        assert each["hyperparameters"] == {
            "lr": 0.1, "alpha": 0.5, "beta": 0.5, "bs": 10, "mbs": 10,
        }  # fmt: skip
        for metric in ("accuracy", "fwt", "bwt", "forgetting"):
            assert each[metric] == getattr(run, metric)
            assert set(each[metric]) == {"class", "task"}
            assert all(-100 <= value <= 100 for value in each[metric].values())
        assert 1 < each["accuracy"]["task"] <= 100, "in percent"
        for setting, rows in each["matrix"].items():
            assert np.shape(rows) == (2, 2)
            assert each["accuracy"][setting] == pytest.approx(np.mean(rows[-1]))
        assert (each["epochs"], each["validation"]) == (1, False)
        assert each["train_seconds"] > 0
        # 20 examples of 6 floats, 4 logits and a label of 8 bytes.
        assert each["memory_bytes"] >= 20 * (6 * 4 + 4 * 4 + 8)
    assert names(tmp_path) == ["runs.json"]
    assert stat.S_IMODE((tmp_path / "runs.json").stat().st_mode) == 0o644


@pytest.mark.parametrize("method", ["sgd", "joint"])
def test_what_is_not_defined_is_null(method: str, tmp_path: Path) -> None:
    x, y = np.random.default_rng(0).random((40, 3)), np.arange(40) % 2
    stream = recollect.from_arrays(x, y, scenario="arrival")
    recollect.run(stream, method, seeds=1, workers=1).save(tmp_path / "runs.json")
    (written,) = strictly((tmp_path / "runs.json").read_text("utf-8"))
    assert set(written["accuracy"]) == {"general"}
    assert written["buffer"] is None
    assert written["memory_bytes"] == 0
    assert written["fwt"] == written["bwt"] == written["forgetting"] == {"general": None}


def test_a_matrix_has_null_for_what_was_not_measured(tmp_path: Path) -> None:
    results = recollect.run("seq-digits", "sgd", seeds=1, workers=1)
    results.save(tmp_path / "runs.json")
    (written,) = strictly((tmp_path / "runs.json").read_text("utf-8"))
    rows = written["matrix"]["class"]
    assert [[value is None for value in row] for row in rows] == [
        [column > row + 1 for column in range(5)] for row in range(5)
    ]


def test_a_run_that_diverged_is_marked_and_still_json(
    toy_stream: TaskStream, tmp_path: Path
) -> None:
    results = recollect.run(toy_stream, "er", buffer=20, seeds=1, lr=[0.1, 1e30], workers=1)
    results.save(tmp_path / "runs.json")
    written = strictly((tmp_path / "runs.json").read_text("utf-8"))
    assert [each["diverged"] for each in written] == [False, True]
    assert ["diverged" in line for line in str(results).splitlines()] == [False, True]
    assert "(1 seed, 1 diverged; lr 1e+30" in str(results)


@pytest.mark.parametrize("before", [None, "what was there"])
@pytest.mark.parametrize(
    "broken",
    [
        replace(RUN, train_seconds=math.nan),
        replace(RUN, accuracy={"class": math.inf}),
        replace(RUN, accuracy={"class": object()}),  # type: ignore[dict-item]
    ],
)
def test_a_failing_dump_leaves_everything_as_it_was(
    broken: Result, before: str | None, tmp_path: Path
) -> None:
    target = tmp_path / "runs.json"
    if before is not None:
        target.write_text(before)
    with pytest.raises((ValueError, TypeError)):
        Results([RUN, broken]).save(target)
    assert names(tmp_path) == ([] if before is None else ["runs.json"])
    if before is not None:
        assert target.read_text() == before


def test_a_file_is_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs.json").write_text("x" * 100_000)
    Results([RUN]).save("runs.json")
    assert len(strictly(Path("runs.json").read_text())) == 1
    assert names(tmp_path) == ["runs.json"]


def test_an_interrupted_save_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        Results([RUN]).save(tmp_path / "runs.json")
    assert names(tmp_path) == []


def test_a_place_where_nothing_can_be_written_is_refused(impossible: Path) -> None:
    with pytest.raises(InputError, match="cannot write") as refused:
        check_writable(impossible)
    assert "\n" not in str(refused.value)
    assert str(impossible) in str(refused.value)
    with pytest.raises(InputError, match="cannot write"):
        Results([RUN]).save(impossible)


def test_checking_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_writable(tmp_path / "x.json")
    check_writable("x.json")
    assert names(tmp_path) == []


def test_what_is_no_plain_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=r"cannot write .*a device or a pipe, not a file"):
        check_writable(tmp_path / "pipe")
    with pytest.raises(InputError, match="cannot write"):
        Results([RUN]).save(tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()


def test_numpy_numbers_can_be_saved(toy_stream: TaskStream, tmp_path: Path) -> None:
    results = recollect.run(toy_stream, "er", buffer=20, seeds=np.arange(2), workers=1)
    results.save(tmp_path / "runs.json")
    written = strictly((tmp_path / "runs.json").read_text("utf-8"))
    assert [each["seed"] for each in written] == [0, 1]
