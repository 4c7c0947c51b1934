"""Results in a file that is whole or absent."""

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
from tests.experiments.test_experiments_results import RUN

import recollect
from recollect import InputError, Results
from recollect.experiments.exports import exported
from recollect.files import check_writable
from recollect.streams import TaskStream
from recollect.train import Result


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


def test_the_suffix_of_a_saved_file_names_its_format(tmp_path: Path) -> None:
    results = Results([RUN, replace(RUN, seed=1)])
    for suffix, start in ((".csv", "benchmark,method,"), (".md", "| benchmark | method |")):
        results.save(tmp_path / f"runs{suffix}")
        written = (tmp_path / f"runs{suffix}").read_text("utf-8")
        assert written.startswith(start)
        assert written == exported(results, suffix)
    results.save(tmp_path / "runs.tex")
    assert r"\begin{tabular}" in (tmp_path / "runs.tex").read_text("utf-8")
    results.save(tmp_path / "runs.jsonl")
    assert len((tmp_path / "runs.jsonl").read_text("utf-8").splitlines()) == 2
    for name in ("runs.jsonl", "runs.json", "runs"):
        results.save(tmp_path / name)
        assert [run.seed for run in Results.load(tmp_path / name)] == [0, 1]


def test_a_suffix_without_a_format_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot save results as '.xlsx': use .json or .jsonl"):
        Results([RUN]).save(tmp_path / "runs.xlsx")
    assert names(tmp_path) == []


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".csv", ".md", ".tex"])
def test_no_runs_can_be_saved(suffix: str, tmp_path: Path) -> None:
    Results([]).save(tmp_path / f"runs{suffix}")
    assert names(tmp_path) == [f"runs{suffix}"]


def test_numpy_numbers_can_be_saved(toy_stream: TaskStream, tmp_path: Path) -> None:
    results = recollect.run(toy_stream, "er", buffer=20, seeds=np.arange(2), workers=1)
    results.save(tmp_path / "runs.json")
    written = strictly((tmp_path / "runs.json").read_text("utf-8"))
    assert [each["seed"] for each in written] == [0, 1]
