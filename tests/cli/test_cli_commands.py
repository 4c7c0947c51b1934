"""The commands that train and list, as a person types them."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Command

import recollect
from recollect import Results
from recollect.cli.reproduce import print_table
from recollect.experiments.labels import SETTINGS
from recollect.streams import Benchmark, Stream, benchmark
from recollect.train import Result


def test_run_prints_means_over_seeds(command: Command) -> None:
    said = command("run", "seq-digits", "derpp", "--buffer", "50", "--seeds", "2", "--workers", "1")
    assert (said.status, said.err) == (0, "")
    assert "seq-digits · derpp · 2 seeds" in said.out
    assert "lr 0.03, alpha 0.2, beta 1, bs 10, mbs 10" in said.out
    (summary,) = recollect.run("seq-digits", "derpp", buffer=50, seeds=2, workers=1).summaries()
    first, second = said.rows()
    metrics = ("accuracy", "fwt", "bwt", "forgetting")
    assert first[:2] == ["50", "Class-IL"]
    assert first[2:6] == [str(summary.mean(metric, "class")) for metric in metrics]
    assert re.fullmatch(r"\d+\.\d\d", first[6])
    assert second[0] == "Task-IL"
    assert second[1:] == [str(summary.mean(metric, "task")) for metric in metrics]
    held = summary.first.memory_bytes / 1000
    assert re.search(rf"\d+ steps of \d+ µs per run · memory {held:.0f} kB per run", said.out)


def test_run_spans_a_grid_of_values_and_buffers_and_writes_all_runs(command: Command) -> None:
    said = command(
        "run", "seq-digits", "er", "--lr", "0.03", "0.1", "--buffer", "20", "50", "20",
        "--seeds", "3,1", "--workers", "1", "--json", "runs.json",
    )  # fmt: skip
    assert (said.status, said.err) == (0, "")
    configurations = [(20, 0.03), (20, 0.1), (50, 0.03), (50, 0.1)]
    assert [(row[0], row[1]) for row in said.rows()[::2]] == [
        (str(buffer), str(lr)) for buffer, lr in configurations
    ]
    assert "bs 10, mbs 10" in said.out
    written = json.loads(Path("runs.json").read_text())
    assert [(r["buffer"], r["hyperparameters"]["lr"], r["seed"]) for r in written] == [
        (buffer, lr, seed) for buffer, lr in configurations for seed in (3, 1)
    ]
    assert [path.name for path in Path().iterdir()] == ["runs.json"]


def test_run_in_two_processes(command: Command) -> None:
    words = ("run", "seq-digits", "sgd", "--seeds", "3", "--json", "runs.json", "--workers")
    said = command(*words, "2")
    assert (said.status, said.err) == (0, "")
    two = json.loads(Path("runs.json").read_text())
    command(*words, "1")
    one = json.loads(Path("runs.json").read_text())
    assert [r["matrix"] for r in one] == [r["matrix"] for r in two]


def test_run_records_what_is_asked_for_and_trains_what_lacks_it(
    command: Command, tmp_path: Path
) -> None:
    line = ["run", "seq-digits", "er", "--buffer", "50", "--seeds", "1", "--workers", "1"]
    file, nets = tmp_path / "runs.json", tmp_path / "nets"
    asked = ["--curves", "50", "--confusion", "--save-networks", str(nets), "--json", str(file)]
    said = command(*line)
    assert "in the store" not in said.err
    assert "any-time" not in said.out
    said = command(*line, *asked)
    assert "in the store" not in said.err
    assert "would be overwritten: choose another name, or use --force" in command(*line, *asked).err
    assert "1 of 1 runs are already in the store" in command(*line, *asked, "--force").err
    (run,) = (Result.from_json(data) for data in json.loads(file.read_text()))
    assert run.curves is not None
    assert run.curves.steps == [29, 50, 58, 88, 100, 117, 146]
    shown = ", ".join(
        f"{n} {run.anytime_accuracy[s]:.2f}" for s, n in SETTINGS.items() if s in run.accuracy
    )
    assert f"any-time accuracy: {shown}" in " ".join(said.out.split())
    assert run.confusion is not None
    assert [str(each) for each in nets.iterdir()] == [run.network_file]
    assert "in the store" not in command(*line, "--curves", "40").err
    assert "1 of 1" in command(*line, "--confusion", "--save-networks", str(nets)).err
    assert "curves must be" in command(*line, "--curves", "-1").err


def test_run_without_a_buffer_takes_the_papers_smallest_and_says_so(command: Command) -> None:
    said = command("run", "seq-digits", "er", "--seeds", "1", "--workers", "1")
    assert said.status == 0
    assert said.err == "recollect: no --buffer given: using 200\n"
    assert said.rows()[0][0] == "200"


def test_run_takes_epochs_batch_sizes_and_the_validation_split(command: Command) -> None:
    said = command(
        "run", "seq-digits", "sgd", "--seeds", "1", "--bs", "100", "--epochs", "2",
        "--validation", "--workers", "1", "--json", "runs.json",
    )  # fmt: skip
    assert said.status == 0
    (written,) = json.loads(Path("runs.json").read_text())
    # About 1,294 examples in five tasks: three steps each, twice.
    assert written["steps"] == 30
    assert written["hyperparameters"] == {"lr": 0.03, "bs": 100}
    assert (written["epochs"], written["validation"]) == (2, True)
    title = said.out.splitlines()[0]
    assert title == "seq-digits · sgd · epochs 2 · validation split · 1 seed"


def test_run_says_how_many_runs_diverged(command: Command) -> None:
    said = command(
        "run", "seq-digits", "sgd", "--seeds", "2", "--lr", "0.1", "1e30", "--workers", "1"
    )
    assert said.status == 0
    assert "2 of 4 runs diverged" in said.out


def test_run_on_a_stream_without_tasks(command: Command) -> None:
    said = command("run", "digits-360", "sgd", "--bs", "64", "--seeds", "2", "--workers", "1")
    assert said.status == 0
    (row,) = said.rows()
    assert row[:2] == ["-", "General CL"]
    assert row[3:6] == ["-", "-", "-"]


def test_reproduce_prints_a_row_per_method_and_buffer(command: Command) -> None:
    said = command(
        "reproduce", "seq-digits", "--methods", "sgd", "er", "--buffers", "20", "50",
        "--seeds", "2", "--workers", "1", "--json", "runs.json",
    )  # fmt: skip
    assert said.status == 0
    assert "seq-digits: accuracy after the last task, 2 seeds" in said.out
    assert said.out.splitlines()[-1].endswith("there are no published results to compare with")
    assert [row[0] for row in said.rows()] == ["SGD", "ER", "ER"]
    assert [row[1] for row in said.rows()[1:]] == ["20", "50"]
    results = recollect.run("seq-digits", "er", buffer=50, seeds=2, workers=1)
    (summary,) = results.summaries()
    means = [str(summary.mean("accuracy", setting)) for setting in ("class", "task")]
    assert said.rows()[2][2:4] == means
    assert said.err.splitlines()[2] == f"recollect: seq-digits er 50: {' '.join(means)}"
    written = json.loads(Path("runs.json").read_text())
    assert [(r["method"], r["buffer"], r["seed"]) for r in written] == [
        ("sgd", None, 0), ("sgd", None, 1), ("er", 20, 0), ("er", 20, 1), ("er", 50, 0),
        ("er", 50, 1),
    ]  # fmt: skip


def test_reproduce_puts_the_paper_and_a_verdict_beside_our_numbers(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pretend(known: Benchmark, *_: object) -> tuple[Benchmark, Stream]:
        return known, benchmark("seq-digits").stream()

    monkeypatch.setattr("recollect.cli.reproduce.stream_or_stand_in", pretend)
    said = command(
        "reproduce", "seq-mnist", "--methods", "sgd", "er", "--buffers", "200", "30",
        "--seeds", "2", "--workers", "1",
    )  # fmt: skip
    assert said.status == 0
    sgd, er, unpublished = said.rows()
    assert (sgd[2], sgd[5]) == ("19.60 ±0.04", "94.94 ±2.18")
    assert (er[3], er[6]) == ("80.43 ±1.89", "97.86 ±0.35")
    assert (unpublished[3], unpublished[5]) == ("-", "-")
    assert not set("✓≈▲▼") & set("".join(unpublished))
    assert er[4] == "(▼)", "digits are few: 44 instead of 80"
    assert sgd[3] in ("(✓)", "(≈)", "(▼)")
    rule, weak = said.out.splitlines()[-2:]
    assert rule.startswith("✓ |ours − paper| ≤ 3·sqrt(σ²/seeds + σ²(paper)/10)   ≈ half a point")
    assert weak.startswith("(✓) weak: fewer than ten seeds")


def test_reproduce_without_mnist_says_that_digits_stand_in(command: Command) -> None:
    said = command("reproduce", "seq-mnist", "--methods", "sgd", "--seeds", "1", "--workers", "1")
    assert said.status == 0
    why, stand_in, *finished = said.err.splitlines()
    assert why.startswith("recollect: the data set mnist could not be found or fetched")
    assert (
        stand_in
        == "recollect: using seq-digits instead of seq-mnist: these are not the paper's data"
    )
    assert len(finished) == 1
    assert "seq-digits: accuracy after the last task" in said.out
    assert "seq-mnist" not in said.out
    assert [row[0] for row in said.rows()] == ["SGD"]
    assert not set("✓≈▲▼") & set(said.out), "no verdict on other data"


def test_tables_say_which_runs_lie_far_below(capsys: pytest.CaptureFixture[str]) -> None:
    runs = [
        Result(
            "mnist-360", "derpp", 200, seed, {}, {"general": value}, {}, {}, {}, 1, False, {},
            None, 1.0, 1, 0, False, "CPU", "eager",
        )
        for seed, value in enumerate([54.0, 55.0, 53.0, 56.0, 52.0, 57.0, 10.9, 54.5, 53.5, 55.5])
    ]  # fmt: skip
    print_table(benchmark("mnist-360"), Results(runs))
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == "DER++ 200: 1 far below (seed 6); means include them"
    assert "50.14 ±13.87" in said[-3]
    assert not any("weak" in line for line in said), "ten seeds"


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (("run", "seq-digits", "sgd"), "run"),
        (("reproduce", "seq-digits", "--methods", "sgd"), "reproduce"),
    ],
)
def test_a_table_that_cannot_be_printed_costs_no_results(
    words: tuple[str, ...], place: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a disk that is full."""

    def fail() -> None:
        raise OSError(errno.ENOSPC, "the table cannot be printed")

    monkeypatch.setattr(f"recollect.cli.{place}.console", fail)
    said = command(*words, "--seeds", "1", "--workers", "1", "--json", "runs.json")
    assert said.status == 2
    assert "cannot write all output: the table cannot be printed" in said.err
    (written,) = json.loads(Path("runs.json").read_text())
    assert written["method"] == "sgd"


def test_nothing_moves_where_there_is_no_terminal(command: Command) -> None:
    for words in (
        ("run", "seq-digits", "sgd", "--seeds", "2", "--workers", "2"),
        ("reproduce", "seq-digits", "--methods", "sgd", "--seeds", "2", "--workers", "2"),
    ):
        said = command(*words, "--fresh")
        assert said.status == 0
        for moving in ("\r", "\x1b", "━ ", "%", "starting"):
            assert moving not in said.err
        assert "\x1b" not in said.out
        assert all(line.startswith("recollect: seq-digits sgd: ") for line in said.err.splitlines())


def test_a_method_without_class_il_has_an_empty_cell_beside_others(command: Command) -> None:
    words = ("reproduce", "seq-digits", "--seeds", "1", "--workers", "1", "--methods")
    alone, both = command(*words, "pnn"), command(*words, "pnn", "sgd")
    assert alone.status == both.status == 0
    assert "Class-IL" not in alone.out
    assert both.out.index("Class-IL") < both.out.index("Task-IL")
    rows = {row[0]: row[1:] for row in both.rows() if "─" not in row[0]}
    assert rows["PNN"][0] == "-"
    assert [len(rows[name]) for name in ("PNN", "SGD")] == [3, 3]
    said = command("run", "seq-digits", "pnn", "--seeds", "1", "--workers", "1")
    assert "Task-IL" in said.out
    assert "Class-IL" not in said.out


def test_end_to_end_in_a_process_of_its_own(tmp_path: Path, python: Callable[..., str]) -> None:
    file = tmp_path / "runs.json"
    words = ("run", "seq-digits", "derpp", "--buffer", "50", "--seeds", "2", "--json", str(file))
    assert "Class-IL" in python("-m", "recollect.cli.main", *words)
    assert [r["seed"] for r in json.loads(file.read_text())] == [0, 1]
    assert [path.name for path in tmp_path.iterdir()] == ["runs.json"]
