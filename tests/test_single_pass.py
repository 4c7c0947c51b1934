"""The tool behind the single-pass tables."""

import json
from pathlib import Path

import pytest
from tools.single_pass import main, rows

from recollect.experiments.files import read_json

WORDS = ["--buffers", "20", "30", "--tune-at", "20", "--seeds", "2", "--rates", "0.03", "0.1"]


def test_one_command_tunes_trains_and_prints_the_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tuned, runs = tmp_path / "tuned.json", tmp_path / "seq-digits.jsonl"
    words = ["seq-digits", "--methods", "sgd", "er", *WORDS, "--folder", str(tmp_path)]
    assert main(words) == 0
    said, announced = capsys.readouterr()
    assert "| method | buffer 20 | buffer 30 | values |" in said
    assert "seq-digits: 10 runs to train, about 10 seconds" in announced
    assert {*json.loads(tuned.read_text())["seq-digits"]} == {"sgd", "er"}
    found = read_json(runs)
    assert sorted((r.method, r.buffer or 0, r.seed) for r in found) == sorted(
        [("sgd", 0, 0), ("sgd", 0, 1)]
        + [("er", size, seed) for size in (20, 30) for seed in (0, 1)]
    )


def test_values_that_are_tuned_are_not_searched_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tuned.json").write_text('{"seq-digits": {"er": {"lr": 0.07}}}')
    words = ["--buffers", "20", "--seeds", "1", "--folder", str(tmp_path)]
    assert main(["seq-digits", "--methods", "er", *words]) == 0
    assert "`lr` 0.07" in capsys.readouterr().out


def test_the_same_command_trains_only_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tuned.json").write_text(
        '{"seq-digits": {"sgd": {"lr": 0.07}, "er": {"lr": 0.07}}}'
    )
    words = ["seq-digits", "--buffers", "20", "--seeds", "2", "--folder", str(tmp_path)]
    assert main([*words, "--methods", "er"]) == 0
    before = read_json(tmp_path / "seq-digits.jsonl")
    capsys.readouterr()
    trained: list[str] = []

    def noted(stream: str, name: str, *arguments: object, **options: object) -> object:
        trained.append(name)
        return rows(stream, name, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("tools.single_pass.rows", noted)
    assert main([*words, "--methods", "er", "sgd"]) == 0
    assert trained == ["sgd"]
    found = read_json(tmp_path / "seq-digits.jsonl")
    assert [run.method for run in found] == ["sgd", "sgd", "er", "er"]
    assert found[2:] == before
    said = capsys.readouterr().out
    assert main([*words, "--methods", "er", "sgd", "--table"]) == 0
    assert capsys.readouterr().out.strip() in said
    assert trained == ["sgd"]


def test_a_run_with_other_values_is_replaced(tmp_path: Path) -> None:
    words = ["seq-digits", "--methods", "er", "--buffers", "20", "--seeds", "1"]
    for rate in (0.07, 0.01):
        (tmp_path / "tuned.json").write_text(f'{{"seq-digits": {{"er": {{"lr": {rate}}}}}}}')
        assert main([*words, "--folder", str(tmp_path)]) == 0
        (run,) = read_json(tmp_path / "seq-digits.jsonl")
        assert run.hyperparameters["lr"] == rate


def test_what_commands_made_in_folders_of_their_own_is_put_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["seq-digits", "--buffers", "20", "--seeds", "1", "--tune-at", "20", "--rates", "0.03"]
    for name in ("sgd", "er"):
        assert main([*words, "--methods", name, "--folder", str(tmp_path / name)]) == 0
    apart = [
        run for name in ("sgd", "er") for run in read_json(tmp_path / name / "seq-digits.jsonl")
    ]
    capsys.readouterr()
    folders = [str(tmp_path / name) for name in ("er", "sgd")]
    assert main([*words, "--folder", str(tmp_path), "--add", *folders, "--table"]) == 0
    assert [*read_json(tmp_path / "seq-digits.jsonl")] == apart
    assert {*json.loads((tmp_path / "tuned.json").read_text())["seq-digits"]} == {"sgd", "er"}
    assert "| ER |" in capsys.readouterr().out
