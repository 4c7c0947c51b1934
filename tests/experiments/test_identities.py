"""Runs of other networks, data or code under one name: never pooled, dropped or overwritten."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.experiments.some_results import made_by
from torch import Tensor, nn

import recollect
from recollect import MLP, Results
from recollect.cli.main import main
from recollect.experiments.exports import exported
from recollect.experiments.files import read_json, write_runs
from recollect.experiments.report import build
from recollect.experiments.store import Store
from recollect.experiments.tensorboard import folder_of
from recollect.streams import TaskStream
from recollect.train import Result
from recollect.train.provenance import Provenance

MADE = Provenance("0.2.0", "here", "recollect run ...", "2026-01-01T00:00:00+00:00")
SEEDS = 2


def stream(shift: float = 0.0) -> TaskStream:
    """A stream that has always the same name, whatever its data."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(80, 6)).astype(np.float32) + np.float32(shift)
    return recollect.from_arrays(x, np.arange(80) % 4, tasks=2, name="mine")


def trained(shift: float = 0.0, hidden: int = 8) -> Results:
    network = partial(MLP, 6, 4, hidden=(hidden,))
    return recollect.run(stream(shift), "er", buffer=10, seeds=SEEDS, network=network, workers=1)


def other_code(results: Results) -> list[Result]:
    return [replace(run, code="0123456789ab") for run in results]


OTHERS: dict[str, Callable[[], list[Result]]] = {
    "network": lambda: list(trained(hidden=9)),
    "data": lambda: list(trained(shift=0.5)),
    "code": lambda: other_code(trained()),
}
NEVER_DROPPED = ["network", "data"]


@pytest.fixture(scope="module")
def ours() -> list[Result]:
    return list(trained())


@pytest.mark.parametrize("what", OTHERS)
def test_means_are_not_taken_over_both(what: str, ours: list[Result]) -> None:
    theirs = OTHERS[what]()
    both = Results([run for pair in zip(ours, theirs, strict=True) for run in pair])
    assert {(run.benchmark, run.method, run.buffer) for run in both} == {("mine", "er", 10)}
    first, second = both.summaries()
    assert (first.runs, second.runs) == (tuple(ours), tuple(theirs))
    assert first.apart.startswith(f"{what} ")
    assert first.apart != second.apart
    lines = str(both).splitlines()
    assert len(lines) == 2
    assert first.apart in lines[0]
    assert second.apart in lines[1]


class Tanh(MLP):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.tanh())


def test_a_network_of_ones_own_is_named_by_its_class(
    ours: list[Result], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_with(network: Callable[[], nn.Module]) -> list[Result]:
        options: dict[str, Any] = {"buffer": 10, "seeds": SEEDS, "workers": 1}
        return list(recollect.run(stream(), "er", network=network, **options))

    def linear() -> nn.Module:
        return nn.Sequential(nn.Linear(6, 4))

    narrow, wide = (run_with(partial(Tanh, 6, 4, hidden=(n,))) for n in (3, 4))
    paper, one, other = Results([*ours, *narrow, *run_with(linear)]).summaries()
    assert paper.apart == "network MLP(hidden=[8])"
    assert (one.apart, other.apart) == ("network Tanh", "network Sequential")
    both = Results([*narrow, *wide])
    assert [each.apart for each in both.summaries()] == [
        f"network Tanh {runs[0].network[:8]}" for runs in (narrow, wide)
    ]
    assert len(Results(narrow).summaries()) == 1
    Results([*ours, *narrow]).save(tmp_path / "runs.json")
    words = ["results", "--store", str(tmp_path / "runs.sqlite")]
    assert main([*words, "--import", str(tmp_path / "runs.json")]) == 0
    assert "network Tanh" in " ".join(capsys.readouterr().out.split())
    assert Store(tmp_path / "runs.sqlite").runs() == [*ours, *narrow]


def test_the_same_run_again_is_not_another_seed(ours: list[Result]) -> None:
    (summary,) = Results([*ours, *trained(), *ours]).summaries()
    assert len(summary.runs) == SEEDS
    assert summary.apart == ""


@pytest.mark.parametrize("what", NEVER_DROPPED)
def test_an_import_takes_both_in(
    what: str, ours: list[Result], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = OTHERS[what]()
    for name, runs in (("ours", ours), ("theirs", theirs)):
        write_runs(tmp_path / f"{name}.json", made_by(MADE, runs))
        Results(runs).save(tmp_path / f"plain-{name}.json")
    for folder in ("", "plain-"):
        store = tmp_path / f"{folder}runs.sqlite"
        files = [str(tmp_path / f"{folder}{name}.json") for name in ("ours", "theirs")]
        assert main(["results", "--store", str(store), "--import", *files]) == 0
        said = capsys.readouterr()
        assert said.err.count("2 runs, 2 of them new") == 2
        assert said.out.count("mine") == 2, "a line for each"
        assert Store(store).runs() == [*ours, *theirs]


@pytest.mark.parametrize("what", NEVER_DROPPED)
def test_a_report_shows_both(what: str, ours: list[Result]) -> None:
    theirs = OTHERS[what]()
    data = build([*ours, *theirs])
    assert (data["runs"], data["repeated"]) == (2 * SEEDS, 0)
    first, second = data["rows"]
    assert (first["id"], second["id"]) == ("mine/er/10", "mine/er/10~2")
    assert first["apart"].startswith(f"{what} ")
    assert first["apart"] != second["apart"]
    for row, runs in ((first, ours), (second, theirs)):
        mean = round(float(np.mean([run.accuracy["class"] for run in runs])), 2)
        assert row["scores"]["class"]["accuracy"][0] == mean


def test_of_other_code_the_latest_is_shown_and_none_is_pooled(
    ours: list[Result], tmp_path: Path
) -> None:
    """Seed 0 was trained again after the code changed; seed 1 was not."""
    later = replace(MADE, created="2027-01-01T00:00:00+00:00")
    newer = replace(ours[0], code="0123456789ab")
    runs = made_by(MADE, ours) + made_by(later, [newer])
    store = Store(tmp_path / "runs.sqlite")
    store.add(runs)
    assert store.runs() == [ours[1], newer]
    assert len(Results(store.runs()).summaries()) == 2
    data = build(runs)
    assert (data["runs"], data["repeated"], len(data["rows"])) == (2, 1, 2)


@pytest.mark.parametrize("what", OTHERS)
def test_exports_tell_them_apart(what: str, ours: list[Result]) -> None:
    both = Results([*ours, *OTHERS[what]()])
    column = {"data": "stream"}.get(what, what)
    found = [row[column] for row in csv.DictReader(exported(both, ".csv").splitlines())]
    assert found == [getattr(run, column) for run in both]
    for summary in both.summaries():
        assert summary.apart in exported(both, ".md")


@pytest.mark.parametrize("what", OTHERS)
def test_folders_for_tensorboard_are_two(what: str, ours: list[Result]) -> None:
    folders = {folder_of(run) for run in (*ours, *OTHERS[what]())}
    assert len(folders) == 2 * SEEDS


def test_exports_have_both_splits_and_all_hyperparameters(
    tmp_path: Path, ours: list[Result], capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(tmp_path / "runs.sqlite")
    split = [replace(run, validation=True) for run in ours]
    store.add([*ours, *split])
    words = ["results", "--store", str(store.path)]
    for suffix in (".csv", ".json", ".jsonl", ".md", ".tex"):
        assert main([*words, "--export", str(tmp_path / f"all{suffix}")]) == 0
    for suffix in (".json", ".jsonl"):
        found = [run.validation for run in read_json(tmp_path / f"all{suffix}")]
        assert found == [False] * SEEDS + [True] * SEEDS
    rows = list(csv.DictReader((tmp_path / "all.csv").read_text("utf-8").splitlines()))
    assert [row["validation"] for row in rows] == ["0", "0", "1", "1"]
    for name, value in ours[0].hyperparameters.items():
        assert rows[0][name] == str(value)
        for suffix in (".md", ".tex"):
            assert f"{name} {value:g}" in (tmp_path / f"all{suffix}").read_text("utf-8")
    head, _, test, validation, *_ = (tmp_path / "all.md").read_text("utf-8").splitlines()
    assert "validation" in head
    assert "| false |" in test
    assert "| true |" in validation
    assert main([*words, "--validation", "--export", str(tmp_path / "split.json")]) == 0
    assert [run.validation for run in read_json(tmp_path / "split.json")] == [True] * SEEDS


def test_a_run_that_was_scored_in_another_setting_leaves_the_mean_of_the_others(
    ours: list[Result],
) -> None:
    foreign = replace(ours[0], seed=9, accuracy={"other": 50.0}, matrix={}, untrained=None)
    for runs in ([*ours, foreign], [foreign, *ours]):
        (summary,) = Results(runs).summaries()
        mean = summary.mean("accuracy", "class")
        assert mean is not None
        assert mean.seeds == 2
        assert mean.mean == float(np.mean([run.accuracy["class"] for run in ours]))
        assert {"class", "task", "other"} == {*summary.settings}
        assert f"Class-IL {mean}" in str(Results(runs))
        assert f"| {mean} (2 seeds) |" in exported(Results(runs), ".md")
        (row,) = build(runs)["rows"]
        assert row["scores"]["class"]["accuracy"] == [
            round(mean.mean, 2), round(mean.std, 2), mean.seeds,
        ]  # fmt: skip
