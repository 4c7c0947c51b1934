"""The tool behind the single-pass tables."""

import json
from pathlib import Path

import pytest
from tools.single_pass import main

from recollect.experiments.files import read_json

WORDS = ["--buffers", "20", "30", "--tune-at", "20", "--seeds", "2", "--rates", "0.03", "0.1"]


def test_one_command_tunes_trains_and_prints_the_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tuned, runs = tmp_path / "tuned.json", tmp_path / "runs.jsonl"
    words = ["seq-digits", "--methods", "sgd", "er", *WORDS, "--tuned", str(tuned)]
    assert main([*words, "--json", str(runs)]) == 0
    said = capsys.readouterr().out
    assert "| method | buffer 20 | buffer 30 | values |" in said
    assert {*json.loads(tuned.read_text())["seq-digits"]} == {"sgd", "er"}
    found = [run for run, _ in read_json(runs)]
    assert sorted((r.method, r.buffer or 0, r.seed) for r in found) == sorted(
        [("sgd", 0, 0), ("sgd", 0, 1)]
        + [("er", size, seed) for size in (20, 30) for seed in (0, 1)]
    )


def test_values_that_are_tuned_are_not_searched_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tuned = tmp_path / "tuned.json"
    tuned.write_text('{"seq-digits": {"er": {"lr": 0.07}}}')
    words = ["--buffers", "20", "--seeds", "1", "--tuned", str(tuned)]
    assert main(["seq-digits", "--methods", "er", *words]) == 0
    assert "`lr` 0.07" in capsys.readouterr().out
