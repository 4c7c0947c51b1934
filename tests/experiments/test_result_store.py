"""The result store: what is written stays, once, whoever writes and whatever kills them."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import sqlite3
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from recollect import MLP
from recollect.cli.main import main
from recollect.errors import DataError
from recollect.experiments import Results, run
from recollect.experiments.exports import exported
from recollect.experiments.made import Made
from recollect.experiments.store import Store, read_json, run_key, write_json
from recollect.methods import ER, DERpp, Method
from recollect.streams import benchmark
from recollect.train import Job, Result
from recollect.train.loop import train
from recollect.train.provenance import (
    code_version,
    commit,
    network_fingerprint,
    stream_fingerprint,
)

MADE = Made("0.1", "abc", "a machine", "recollect run ...", "2026-01-01T00:00:00+00:00")


@pytest.fixture(scope="module")
def trained() -> list[Result]:
    """Three runs of one configuration."""
    return list(run("seq-digits", "er", buffer=20, seeds=3, workers=1))


def test_what_was_added_comes_back_once(trained: list[Result], tmp_path: Path) -> None:
    store = Store(tmp_path / "a" / "results.sqlite")
    assert store.rows() == []
    assert store.add((each, MADE) for each in trained) == 3
    assert store.add((each, MADE) for each in trained) == 0
    assert [row.result for row in store.rows()] == trained
    assert [row.made for row in store.rows()] == [MADE] * 3
    assert len(store.rows(benchmark="seq-digits", method="er", buffer=20)) == 3
    assert store.rows(method="derpp") == store.rows(buffer=None) == store.rows(buffer=21) == []
    assert store.rows(validation=True) == []


def test_of_two_codes_the_newer_one_is_shown(trained: list[Result], tmp_path: Path) -> None:
    store = Store(tmp_path / "results.sqlite")
    later = replace(MADE, code="def", created="2026-02-01T00:00:00+00:00")
    better = replace(trained[0], accuracy={"class": 99.0, "task": 99.0})
    store.add([(better, later), *((each, MADE) for each in trained)])
    assert [row.code for row in store.rows()] == ["def", "abc", "abc"]
    assert len(store.rows(all_codes=True)) == 4
    keys = [run_key(each) for each in trained]
    assert store.find(keys, "def") == {keys[0]: better}
    assert store.find(keys, "nothing") == {}


def test_a_key_is_what_was_run_and_nothing_else(trained: list[Result]) -> None:
    first = trained[0]
    same = replace(first, accuracy={}, train_seconds=0.0, device="GPU", execution="", steps=1)
    assert run_key(same) == run_key(first)
    others: list[dict[str, Any]] = [
        {"seed": 9}, {"buffer": 21}, {"epochs": 2}, {"validation": True}, {"method": "der"},
        {"benchmark": "seq-mnist"}, {"hyperparameters": {**first.hyperparameters, "lr": 0.5}},
    ]  # fmt: skip
    keys = {run_key(replace(first, **change)) for change in others}
    assert len(keys) == len(others)
    assert run_key(first) not in keys


def test_the_code_of_a_method_from_elsewhere_counts() -> None:
    class Mine(ER):
        pass

    assert code_version(ER) == code_version(DERpp) != code_version(Mine)
    assert len(code_version(ER)) == 12


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    path.write_text("no database")
    with pytest.raises(DataError, match="cannot be used"):
        Store(path).rows()
    with pytest.raises(DataError, match="cannot be used"):
        Store(tmp_path).add([])


def test_json_from_another_machine_is_taken_in(trained: list[Result], tmp_path: Path) -> None:
    theirs, ours = Store(tmp_path / "theirs.sqlite"), Store(tmp_path / "ours.sqlite")
    theirs.add((each, MADE) for each in trained)
    write_json(tmp_path / "runs.json", trained, theirs)
    Results(trained).save(tmp_path / "plain.json")
    assert read_json(tmp_path / "runs.json") == [(each, MADE) for each in trained]
    assert [made.code for _, made in read_json(tmp_path / "plain.json")] == ["imported"] * 3
    ours.add(read_json(tmp_path / "runs.json"))
    assert [row.result for row in ours.rows()] == trained


ORIGIN = ("commit", "torch", "precision", "network", "stream")


def test_runs_carry_where_they_came_from(
    tmp_path: Path, bare_machine: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """By `--json`, from store to store, and back."""
    words = "run seq-digits er --buffer 20 --seeds 2 --workers 1 --device cpu --json made.json"
    assert main([*words.split(), "--store", "first.sqlite"]) == 0
    runs = read_json("made.json")
    stream = benchmark("seq-digits").stream()
    expected = (
        commit(), torch.__version__, "float32",
        network_fingerprint(lambda: MLP(64, 10)), stream_fingerprint(stream),
    )  # fmt: skip
    for _, made in runs:
        assert tuple(getattr(made, name) for name in ORIGIN) == expected
        assert made.code == code_version(ER)
    assert main(["results", "--store", "first.sqlite", "--export", "out.json"]) == 0
    assert main(["results", "--store", "second.sqlite", "--import", "out.json"]) == 0
    assert [(row.result, row.made) for row in Store("second.sqlite").rows()] == runs


def test_the_code_is_that_from_before_training(
    bare_machine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever edits files during a long run does not change what made it."""
    asked: list[str] = []

    def noted(kind: type[Method]) -> str:
        asked.append("code")
        return code_version(kind)

    def trains(*others: Any) -> list[Result]:
        asked.append("train")
        return train(*others)

    monkeypatch.setattr("recollect.experiments.store.code_version", noted)
    monkeypatch.setattr("recollect.train.parallel.train", trains)
    for more in ([], ["--fresh"]):
        asked.clear()
        words = ["run", "seq-digits", "sgd", "--seeds", "1", "--workers", "1", "--device", "cpu"]
        assert main([*words, *more]) == 0
        assert asked.index("code") < asked.index("train")


def test_each_of_two_codes_keeps_its_own_origin(trained: list[Result], tmp_path: Path) -> None:
    store = Store(tmp_path / "results.sqlite")
    later = replace(MADE, code="def", created="2026-02-01T00:00:00+00:00", commit="c0ffee")
    better = replace(trained[0], accuracy={"class": 99.0, "task": 99.0})
    store.add([(trained[0], MADE), (better, later)])
    write_json(tmp_path / "both.json", [trained[0], better], store)
    assert read_json(tmp_path / "both.json") == [(trained[0], MADE), (better, later)]
    path = tmp_path / "all.json"
    words = ["results", "--store", str(store.path), "--all-code", "--export", str(path)]
    assert main(words) == 0
    assert read_json(path) == [(trained[0], MADE), (better, later)]


def test_files_and_stores_of_before_are_read(tmp_path: Path) -> None:
    """As version 0.1.0 wrote them, with five facts about where a run came from."""
    old = Path(__file__).parent / "files" / "results-0.1.json"
    ((run, made),) = read_json(old)
    assert (made.code, made.version) == ("00d6c1319387", "0.1.0")
    assert [getattr(made, name) for name in ORIGIN] == [""] * 5
    store = Store(tmp_path / "old.sqlite")
    store.add([(run, made)])
    origin = json.loads(old.read_text("utf-8"))[0]["made"]
    with sqlite3.connect(store.path) as database:
        database.execute("UPDATE runs SET made = ?", [json.dumps(origin)])
    assert [(row.result, row.made) for row in store.rows()] == [(run, made)]


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"benchmark": "x"}]', "[[]]"])
def test_json_that_holds_no_runs_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(DataError, match="no results as --json writes them"):
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
    before = [row.created for row in Store().rows()]
    trained_runs: list[int] = []

    def counted(job: Job, *others: Any) -> list[Result]:
        trained_runs.append(len(job.runs))
        return train(job, *others)

    monkeypatch.setattr("recollect.train.parallel.train", counted)
    assert main([*arguments, "--seeds", "3"]) == 0
    assert trained_runs == [1]
    assert "2 of 3 runs are in the store" in capsys.readouterr().err
    rows = Store().rows()
    assert [row.result.seed for row in rows] == [0, 1, 2]
    assert [row.created for row in rows][:2] == before
    assert rows[2].command == "recollect run seq-digits er --buffer 20 --workers 1 --seeds 3"
    assert main([*arguments, "--seeds", "3"]) == 0
    assert trained_runs == [1]
    assert main([*arguments, "--seeds", "3", "--fresh"]) == 0
    assert trained_runs == [1, 3]
    assert len(Store().rows(all_codes=True)) == 3


def test_the_command_lists_imports_and_exports(
    trained: list[Result], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["results"]) == 0
    assert "no such runs" in capsys.readouterr().err
    Results(trained).save(tmp_path / "runs.json")
    assert main(["results", "--import", str(tmp_path / "runs.json")]) == 0
    said = capsys.readouterr()
    assert "3 runs, 3 of them new" in said.err
    assert "seq-digits" in said.out
    assert main(["results", "--method", "ER"]) == 0
    assert "3 runs in" in capsys.readouterr().out
    assert main(["results", "--benchmark", "seq-digitz"]) == 0
    there = f"it has the benchmarks seq-digits; methods {trained[0].method}"
    assert there in capsys.readouterr().err
    for suffix in (".csv", ".md", ".tex", ".json"):
        assert main(["results", "--export", str(tmp_path / f"out{suffix}")]) == 0
        assert (tmp_path / f"out{suffix}").stat().st_size > 100
    assert len(json.loads((tmp_path / "out.json").read_text())) == 3
    assert main(["results", "--export", str(tmp_path / "out.doc")]) == 2
    assert main(["results", "--import", str(tmp_path / "missing.json")]) == 2
    assert main(["results", "--method", "derpp"]) == 0
    Store().add([(replace(trained[0], diverged=True, seed=99), MADE)])
    assert main(["results"]) == 0
    assert "4, 1 diverged" in capsys.readouterr().out


def _adds(path: Path, results: list[Result]) -> None:
    for each in results:
        Store(path).add([(each, MADE)])


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
    assert sorted(row.result.seed for row in Store(path).rows()) == list(range(60))


ARGUMENTS = ["reproduce", "seq-digits", "--methods", "er", "derpp", "--buffers", "20",
             "--seeds", "6", "--workers", "2"]  # fmt: skip
KILLS = 20


def _child(store: Path, cache: Path) -> None:
    os.environ |= {"RECOLLECT_STORE": str(store), "RECOLLECT_CACHE": str(cache)}
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)
    os._exit(main(ARGUMENTS))


def _scores(path: Path) -> dict[tuple[str, int], Any]:
    rows = Store(path).rows(all_codes=True)
    assert len({row.key for row in rows}) == len(rows)
    return {(row.result.method, row.result.seed): row.result.matrix for row in rows}


def test_a_reproduction_that_is_killed_again_and_again_ends_the_same(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")

    def started(name: str) -> multiprocessing.process.BaseProcess:
        process = context.Process(target=_child, args=(tmp_path / name, tmp_path / f"{name}-cache"))
        process.start()
        return process

    begun = time.monotonic()
    undisturbed = started("whole.sqlite")
    undisturbed.join(300)
    whole = time.monotonic() - begun
    assert undisturbed.exitcode == 0
    expected = _scores(tmp_path / "whole.sqlite")
    assert len(expected) == 12

    rng = random.Random(0)
    kills = rounds = 0
    while kills < KILLS:
        rounds += 1
        name = f"killed-{rounds}.sqlite"
        while True:
            process = started(name)
            process.join(rng.uniform(0.0, whole * 0.9) if kills < KILLS else 300)
            if process.exitcode is not None:
                break
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            kills += 1
        assert process.exitcode == 0
        assert _scores(tmp_path / name) == expected
