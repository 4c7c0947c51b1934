"""Curves, confusion matrices and what they come to: in exports, files, the store and the report."""

from __future__ import annotations

import base64
import csv
import importlib.util
import json
import sys
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.experiments.some_results import PLAIN, made_by, with_curves

from recollect import Results
from recollect.cli.main import main
from recollect.errors import DataError
from recollect.experiments.exports import exported
from recollect.experiments.figures import Material, recipe
from recollect.experiments.files import read_json, write_runs
from recollect.experiments.report import build
from recollect.experiments.store import Store
from recollect.train import Result
from recollect.train.curves import average_incremental
from recollect.train.provenance import Provenance

MADE = Provenance("0.1.0", "here", "recollect run ...", "2026-01-01")
# By hand: ten steps each of 90, 90, 70 (the mean of 60 and 80) and 70.
ANYTIME = (90 + 90 + 70 + 70) / 4
INCREMENTAL = (90 + (60 + 80) / 2 + (30 + 40 + 70) / 3) / 3

drawn_here = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed"
)


def plain(count: int = 3) -> list[Result]:
    return [replace(PLAIN, seed=seed) for seed in range(count)]


def recorded(count: int = 3) -> list[Result]:
    return [with_curves(run, change=float(run.seed)) for run in plain(count)]


def of(row: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = row["runs"]
    return found


def unpacked(data: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(data["recorded"])))
    return found


def test_a_csv_and_a_frame_have_both_scores_where_there_are_any() -> None:
    rows = list(csv.DictReader(exported(Results(recorded(1)), ".csv").splitlines()))
    assert float(rows[0]["any-time accuracy Class-IL"]) == ANYTIME
    assert float(rows[0]["average incremental accuracy Class-IL"]) == INCREMENTAL
    bare = Results(plain()).to_pandas()
    assert bare["average incremental accuracy Class-IL"].tolist() == [INCREMENTAL] * 3
    assert not [name for name in bare.columns if "any-time" in name], "nothing recorded"
    mixed = Results([*recorded(1), *plain(2)[1:]]).to_pandas()
    assert mixed["any-time accuracy Task-IL"].isna().tolist() == [False, True]


def test_tables_of_means_have_them_where_they_were_recorded_or_asked_for() -> None:
    few = "| benchmark | method | buffer | seeds | Class-IL | Task-IL |"
    assert exported(Results(plain()), ".md").splitlines()[0] == few
    head, _, row = exported(Results(recorded()), ".md").splitlines()[:3]
    cells = dict(zip(head.split(" | "), row.split(" | "), strict=True))
    assert cells["any-time accuracy Class-IL"] == f"{ANYTIME + 0.75:.2f} ±0.75"
    assert cells["average incremental accuracy Class-IL"] == f"{INCREMENTAL:.2f} ±0.00"
    lines = exported(Results(recorded()), ".tex", ["accuracy", "anytime_accuracy"]).splitlines()
    (head,) = (line for line in lines if line.startswith("benchmark"))
    assert "any-time accuracy Class-IL" in head
    assert "average incremental" not in head
    assert "forgetting" not in exported(Results(plain()), ".md", ["forgetting"]), "none is known"


def test_a_mean_over_some_of_the_seeds_says_so() -> None:
    text = exported(Results([*recorded(2), *plain(3)[2:]]), ".md", ["anytime_accuracy"])
    assert f"| {ANYTIME + 0.375:.2f} ±0.53 (2 seeds) |" in text


def test_the_screen_shows_the_scores_that_were_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(tmp_path / "runs.sqlite")
    store.add(made_by(MADE, recorded()))
    words = ["results", "--store", str(store.path)]
    assert main(words) == 0
    assert f"{ANYTIME + 0.75:.2f}" not in capsys.readouterr().out
    assert main([*words, "--scores", "anytime-accuracy"]) == 0
    assert f"{ANYTIME + 0.75:.2f} ±0.75" in capsys.readouterr().out
    out = ["--export", str(tmp_path / "a.csv")]
    assert main([*words, *out, "--scores", "anytime-accuracy"]) == 2
    assert "a .csv file has all scores, so omit it" in capsys.readouterr().err


def test_a_run_prints_any_time_accuracy_only_with_curves(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["run", "seq-digits", "sgd", "--seeds", "2", "--workers", "1"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "average incremental accuracy: Class-IL " in said
    assert "any-time" not in said
    assert main([*words, "--curves", "50"]) == 0
    assert "any-time accuracy: Class-IL " in capsys.readouterr().out
    assert main([*words, "--lr", "0.01", "0.2"]) == 0
    assert "average incremental" not in capsys.readouterr().out, "of a grid it is not shown"
    assert main([*words, "--lr", "0.01", "0.2", "--curves", "50"]) == 0
    (head,) = (line for line in capsys.readouterr().out.splitlines() if "any-time" in line)
    assert head.split("  ")[0].strip() == "buffer"
    assert "average incremental accuracy" in head


def test_a_matrix_with_gaps_has_no_average_incremental_accuracy() -> None:
    assert average_incremental([[90.0, None], [None, 80.0]]) is None
    assert average_incremental([[None]]) is None
    assert average_incremental([]) is None


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_files_and_the_store_keep_them(suffix: str, tmp_path: Path) -> None:
    first, second = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    write_runs(first, recorded())
    store = Store(tmp_path / "runs.sqlite")
    assert store.add(read_json(first)) == 3
    assert store.runs() == recorded()
    words = ["results", "--store", str(store.path), "--export", str(second)]
    assert main(words) == 0
    assert read_json(second) == recorded()
    page = tmp_path / "report.html"
    assert main(["report", "--from", str(second), "--out", str(page)]) == 0
    assert "any-time accuracy" in page.read_text("utf-8").lower()


def test_numbers_in_lines_are_rounded_and_lists_of_a_file_take_one_line(tmp_path: Path) -> None:
    (run,) = recorded(1)
    assert run.curves is not None
    odd = replace(run, curves=replace(run.curves, loss=[1 / 3] * 4))
    write_runs(tmp_path / "a.jsonl", [odd])
    (again,) = read_json(tmp_path / "a.jsonl")
    assert again.curves is not None
    assert again.curves.loss == [0.3333] * 4
    write_runs(tmp_path / "a.json", [odd])
    lines = [line.strip() for line in (tmp_path / "a.json").read_text("utf-8").splitlines()]
    assert '"steps": [10, 20, 30, 40],' in lines
    assert "[3, 1]," in lines
    assert read_json(tmp_path / "a.json") == [odd]


def test_an_import_gives_stored_runs_what_they_lack_and_changes_nothing_else(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path / "runs.sqlite")
    store.add(made_by(MADE, plain()))
    other = Provenance("0.1.0", "elsewhere", "another command", "2026-02-02")
    changed = [replace(run, train_seconds=9.0) for run in recorded()]
    assert store.add(made_by(other, changed)) == 0, "none is new"
    rows = store.runs()
    assert rows == recorded()
    assert {run.provenance.command for run in rows} == {MADE.command}
    finer = [with_curves(run, every=20) for run in plain()]
    assert store.add(made_by(other, finer)) == 0
    assert store.runs() == recorded(), "what is there stays"


@pytest.mark.parametrize(
    ("name", "value"),
    [("confusion", {"class": [[1, 2]]}), ("confusion", {"class": [[1, 2], [3]]})],
)
def test_damaged_confusion_matrices_are_refused(name: str, value: Any, tmp_path: Path) -> None:
    data = recorded(1)[0].as_json() | {name: value}
    (tmp_path / "runs.json").write_text(json.dumps([data]))
    with pytest.raises(DataError, match="square tables of counts"):
        read_json(tmp_path / "runs.json")


def test_steps_that_do_not_rise_are_refused(tmp_path: Path) -> None:
    data = json.loads(json.dumps(recorded(1)[0].as_json()))
    data["curves"]["steps"] = [10, 10, 20, 30]
    (tmp_path / "runs.json").write_text(json.dumps([data]))
    with pytest.raises(DataError, match="curves"):
        read_json(tmp_path / "runs.json")


@drawn_here
def test_the_report_has_plots_and_counts_of_what_was_recorded_and_nothing_else() -> None:
    bare = [replace(run, method="er") for run in plain(1)]
    data = build(made_by(MADE, [*bare, *recorded()]))
    records = unpacked(data)
    assert list(records) == ["seq-mnist/derpp/200"]
    er, derpp = data["rows"]
    assert [run.get("recorded") for run in of(er)] == [None]
    assert [run["recorded"] for run in of(derpp)] == [["curves", "confusion"]] * 3
    assert derpp["scores"]["class"]["anytime_accuracy"] == [ANYTIME + 0.75, 0.75, 3]
    assert er["scores"]["class"]["anytime_accuracy"] is None
    plots = {plot["title"]: plot for plot in records["seq-mnist/derpp/200"]["curves"]}
    assert list(plots) == [
        "Class-IL: mean of the tasks so far", "Class-IL: accuracy on each task, mean of 3 seeds",
        "Task-IL: mean of the tasks so far", "Task-IL: accuracy on each task, mean of 3 seeds",
        "Training loss",
    ]  # fmt: skip
    marks = plots["Class-IL: mean of the tasks so far"]["marks"]
    assert {mark[0] for mark in marks} == {"seed 0", "seed 1", "seed 2", "mean"}
    of_seed, of_mean = (
        [mark[4:] for mark in marks if mark[0] == key] for key in ("seed 2", "mean")
    )
    assert of_seed[-1] == ["after 40 steps", "71.00"]
    assert of_mean[0] == ["after 10 steps", "91.00 ±1.00"]
    tasks = plots["Class-IL: accuracy on each task, mean of 3 seeds"]
    assert [entry[:2] for entry in tasks["legend"]] == [["task 1", "task 1"], ["task 2", "task 2"]]
    assert [mark[4] for mark in tasks["marks"] if mark[0] == "task 2"] == [
        "after 30 steps", "after 40 steps"
    ]  # fmt: skip
    counts = records["seq-mnist/derpp/200"]["confusion"]["class"]
    assert counts == {str(seed): [[3, 1], [2, 2]] for seed in range(3)}


def test_a_report_of_runs_without_records_has_none() -> None:
    assert build(plain())["recorded"] == ""


def test_without_matplotlib_confusion_matrices_are_still_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    (record,) = unpacked(build(recorded())).values()
    assert list(record) == ["confusion"]


def test_a_figure_compares_methods_with_the_same_buffer_over_the_same_steps() -> None:
    sgd = [replace(run, method="sgd", buffer=None) for run in recorded(2)]
    small = [replace(run, buffer=50) for run in recorded(2)]
    odd = with_curves(replace(PLAIN, seed=7), every=20)
    made = recipe("curves").data(Material(results=[*sgd, *small, *recorded(), odd]))
    titles = [panel.title for panel in made.panels]
    assert titles == [
        "seq-mnist, Class-IL, buffer 50", "seq-mnist, Class-IL, buffer 200",
        "seq-mnist, loss, buffer 50", "seq-mnist, loss, buffer 200",
        "seq-mnist, Task-IL, buffer 50", "seq-mnist, Task-IL, buffer 200",
    ]  # fmt: skip
    panel = made.panels[1]
    assert panel.ends == (20, 40)
    assert [(line.method, len(line.points)) for line in panel.lines] == [("sgd", 4), ("derpp", 4)]
    assert panel.lines[1].points[0].seeds == 3, "seed 7 was measured at other steps"
    assert [point.mean for point in panel.lines[1].points] == [91.0, 91.0, 70.5, 70.5]


def test_long_curves_are_drawn_with_fewer_points() -> None:
    (run,) = recorded(1)
    assert run.curves is not None
    steps = list(range(1, 1001))
    tasks = [0 if step <= 333 else 1 for step in steps]
    curves = replace(
        run.curves, steps=steps, tasks=tasks, loss=[1.0] * 1000,
        accuracy={"class": [[50.0] * (task + 1) for task in tasks]},
    )  # fmt: skip
    made = recipe("curves").data(Material(results=[replace(run, curves=curves)]))
    assert [panel.setting for panel in made.panels] == ["class", "loss"], "not measured in Task-IL"
    (line,) = made.panels[0].lines
    drawn = [point.x for point in line.points]
    assert len(drawn) <= 202
    assert {333, 1000} <= {*drawn}, "the ends of tasks are there"
