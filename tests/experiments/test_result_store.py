"""The result store: what is written stays, once, whoever writes and whatever kills them."""

from __future__ import annotations

import json
import multiprocessing
import os
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.experiments.some_results import made_by, with_provenance

from recollect import MLP
from recollect.cli.main import main
from recollect.core.dense import Dense
from recollect.errors import DataError
from recollect.experiments import Results, run
from recollect.experiments.exports import exported
from recollect.experiments.files import read_json, write_runs
from recollect.experiments.store import Store
from recollect.methods import ER
from recollect.streams import TaskStream, benchmark
from recollect.train import Job, Result
from recollect.train.code import code_fingerprint
from recollect.train.fingerprint import NetworkFacts, stream_fingerprint
from recollect.train.loop import train
from recollect.train.provenance import Provenance, commit

MADE = Provenance(
    "0.1", "a machine", "recollect run ...", "2026-01-01T00:00:00+00:00", precision="float32"
)
LATER = replace(MADE, created="2026-02-01T00:00:00+00:00", commit="c0ffee")


@pytest.fixture(scope="module")
def trained() -> list[Result]:
    """Three runs of one configuration."""
    return list(run("seq-digits", "er", buffer=20, seeds=3, workers=1))


def test_what_was_added_comes_back_once(trained: list[Result], tmp_path: Path) -> None:
    store = Store(tmp_path / "a" / "results.sqlite")
    assert store.runs() == []
    assert store.add(made_by(MADE, trained)) == 3
    assert store.add(made_by(MADE, trained)) == 0
    assert store.runs() == trained
    assert [run.provenance for run in store.runs()] == [MADE] * 3
    assert len(store.runs(benchmark="seq-digits", method="er", buffer=20)) == 3
    assert store.runs(method="derpp") == store.runs(buffer=None) == store.runs(buffer=21) == []
    assert store.runs(validation=True) == []


def other_code(run: Result) -> Result:
    return replace(run, code="def", accuracy={"class": 99.0, "task": 99.0})


def test_of_two_codes_the_newer_one_is_shown(trained: list[Result], tmp_path: Path) -> None:
    store = Store(tmp_path / "results.sqlite")
    newer, code = other_code(trained[0]), trained[0].code
    store.add(made_by(LATER, [newer]) + made_by(MADE, trained))
    assert [run.code for run in store.runs()] == ["def", code, code]
    assert len(store.runs(all_codes=True)) == 4
    asked = [newer, *trained, replace(newer, code="nothing")]
    assert store.find([each.identity for each in asked]) == [newer, *trained, None]


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    path.write_text("no database")
    with pytest.raises(DataError, match="cannot be used"):
        Store(path).runs()
    with pytest.raises(DataError, match="cannot be used"):
        Store(tmp_path).add([])


def test_json_from_another_machine_is_taken_in(trained: list[Result], tmp_path: Path) -> None:
    ours = Store(tmp_path / "ours.sqlite")
    theirs = made_by(MADE, trained)
    write_runs(tmp_path / "runs.json", theirs)
    Results(trained).save(tmp_path / "plain.json")
    assert with_provenance(read_json(tmp_path / "runs.json")) == with_provenance(theirs)
    plain = read_json(tmp_path / "plain.json")
    assert with_provenance(plain) == with_provenance(trained)
    assert {run.provenance.commit for run in plain} == {commit()}
    ours.add(read_json(tmp_path / "runs.json"))
    assert ours.runs() == trained


def test_runs_carry_where_they_came_from(
    tmp_path: Path, bare_machine: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """By `--json`, from store to store, and back."""
    words = "run seq-digits er --buffer 20 --seeds 2 --workers 1 --device cpu --json made.json"
    assert main([*words.split(), "--store", "first.sqlite"]) == 0
    runs = read_json("made.json")
    stream = stream_fingerprint(benchmark("seq-digits").stream())
    for result in runs:
        made = result.provenance
        assert (made.commit, made.torch, made.precision) == (commit(), torch.__version__, "float32")
        assert result.network == NetworkFacts.of(lambda: MLP(64, 10)).fingerprint
        assert (result.stream, result.precision) == (stream, "float32")
        assert result.code == code_fingerprint(ER, TaskStream, Dense, MLP)
    assert main(["results", "--store", "first.sqlite", "--export", "out.json"]) == 0
    assert main(["results", "--store", "second.sqlite", "--import", "out.json"]) == 0
    assert with_provenance(Store("second.sqlite").runs()) == with_provenance(runs)


def test_the_code_is_that_from_before_training(
    bare_machine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever edits files during a long run does not change what made it."""
    asked: list[str] = []

    def noted(*kinds: type) -> str:
        asked.append("code")
        return code_fingerprint(*kinds)

    def trains(*others: Any) -> list[Result]:
        asked.append("train")
        return train(*others)

    monkeypatch.setattr("recollect.train.job.code_fingerprint", noted)
    monkeypatch.setattr("recollect.train.parallel.train", trains)
    for more in ([], ["--fresh"]):
        asked.clear()
        words = ["run", "seq-digits", "sgd", "--seeds", "1", "--workers", "1", "--device", "cpu"]
        assert main([*words, *more]) == 0
        assert asked.index("code") < asked.index("train")


def test_each_of_two_codes_has_its_own_provenance(trained: list[Result], tmp_path: Path) -> None:
    store = Store(tmp_path / "results.sqlite")
    both = made_by(MADE, trained[:1]) + made_by(LATER, [other_code(trained[0])])
    store.add(both)
    write_runs(tmp_path / "both.json", both)
    path = tmp_path / "all.json"
    words = ["results", "--store", str(store.path), "--all-code", "--export", str(path)]
    assert main(words) == 0
    for file in (tmp_path / "both.json", path):
        assert with_provenance(read_json(file)) == with_provenance(both)


def test_a_file_of_version_0_1_is_read(tmp_path: Path) -> None:
    """It has five facts about where a run came from."""
    old = Path(__file__).parent / "files" / "results-0.1.json"
    (run,) = read_json(old)
    made = run.provenance
    assert (run.code, made.version, made.created) == (
        "00d6c1319387", "0.1.0", "2026-11-16T17:46:01+00:00",
    )  # fmt: skip
    assert [made.commit, made.torch, made.precision, run.network, run.stream] == [""] * 5
    assert run.identity.precision == "float32", "its execution says so"
    store = Store(tmp_path / "new.sqlite")
    store.add([run])
    assert [each.identity for each in store.runs()] == [run.identity]


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"benchmark": "x"}]', "[[]]"])
def test_json_that_holds_no_runs_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(DataError, match=r"not a (results file|run) as --json writes it"):
        read_json(path)


def test_exports_hold_the_numbers(trained: list[Result]) -> None:
    results = Results(trained)
    mean = str(results.summaries()[0].mean("accuracy", "class"))
    lines = exported(results, ".csv").splitlines()
    assert len(lines) == 4
    assert str(trained[0].accuracy["class"]) in lines[1]
    assert f"| {mean} |" in exported(results, ".md")
    tex = exported(results, ".tex")
    assert mean.replace("±", r"$\pm$") in tex
    assert tex.count(r"\\") == 2


def test_a_command_skips_what_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["run", "seq-digits", "er", "--buffer", "20", "--workers", "1"]
    assert main([*arguments, "--seeds", "2", "--json", str(tmp_path / "a.json")]) == 0
    before = [run.provenance.created for run in Store().runs()]
    trained_runs: list[int] = []

    def counted(job: Job, *others: Any) -> list[Result]:
        trained_runs.append(len(job.runs))
        return train(job, *others)

    monkeypatch.setattr("recollect.train.parallel.train", counted)
    assert main([*arguments, "--seeds", "3"]) == 0
    assert trained_runs == [1]
    assert "2 of 3 runs are already in the store" in capsys.readouterr().err
    runs = Store().runs()
    assert [run.seed for run in runs] == [0, 1, 2]
    assert [run.provenance.created for run in runs][:2] == before
    assert (
        runs[2].provenance.command
        == "recollect run seq-digits er --buffer 20 --workers 1 --seeds 3"
    )
    assert main([*arguments, "--seeds", "3"]) == 0
    assert trained_runs == [1]
    assert main([*arguments, "--seeds", "3", "--fresh"]) == 0
    assert trained_runs == [1, 3]
    assert len(Store().runs(all_codes=True)) == 3


def test_the_command_lists_imports_and_exports(
    trained: list[Result], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["results"]) == 0
    assert "no matching runs" in capsys.readouterr().err
    Results(trained).save(tmp_path / "runs.json")
    assert main(["results", "--import", str(tmp_path / "runs.json")]) == 0
    said = capsys.readouterr()
    assert "3 runs, 3 of them new" in said.err
    assert "seq-digits" in said.out
    assert main(["results", "--method", "ER"]) == 0
    assert "3 runs in" in capsys.readouterr().out
    assert main(["results", "--benchmark", "seq-digitz"]) == 2
    there = f"benchmarks: seq-digits; methods: {trained[0].method}"
    assert there in capsys.readouterr().err
    for suffix in (".csv", ".md", ".tex", ".json"):
        assert main(["results", "--export", str(tmp_path / f"out{suffix}")]) == 0
        assert (tmp_path / f"out{suffix}").stat().st_size > 100
    assert len(json.loads((tmp_path / "out.json").read_text())) == 3
    assert main(["results", "--export", str(tmp_path / "out.doc")]) == 2
    assert main(["results", "--import", str(tmp_path / "missing.json")]) == 2
    assert main(["results", "--method", "derpp"]) == 2
    Store().add([replace(trained[0], diverged=True, seed=99)])
    assert main(["results"]) == 0
    assert "4, 1 diverged" in capsys.readouterr().out


def _adds(path: Path, results: list[Result]) -> None:
    for each in results:
        Store(path).add([each])


def test_two_processes_write_at_once(trained: list[Result], tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    many = [replace(trained[0], seed=seed) for seed in range(60)]
    context = multiprocessing.get_context("fork")
    halves = [context.Process(target=_adds, args=(path, many[a:b])) for a, b in ((0, 40), (20, 60))]
    for process in halves:
        process.start()
    for process in halves:
        process.join(60)
        assert process.exitcode == 0
    assert sorted(run.seed for run in Store(path).runs()) == list(range(60))


def test_a_store_that_cannot_be_written_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a read-only mount; files beside the store cannot be made there."""
    store = Store(tmp_path / "a folder?" / "runs.sqlite")
    first = run("seq-digits", "sgd", seeds=1, workers=1, store=store.path)[0]
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    opened: list[str] = []
    connect = sqlite3.connect

    def noted(path: str, **options: Any) -> Any:
        opened.append(path)
        return connect(path, **options)

    monkeypatch.setattr(sqlite3, "connect", noted)
    assert store.runs() == [first]
    assert store.find([first.identity]) == [first]
    assert all(path.endswith("?mode=ro&immutable=1") for path in opened)
    assert [file.name for file in store.path.parent.iterdir()] == ["runs.sqlite"]
    with pytest.raises(DataError, match=r"runs.sqlite cannot be used: it is read-only; choose"):
        store.add([])
