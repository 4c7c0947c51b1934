"""The tool that trains ER-ACE and X-DER for their published figures, on a small stream."""

from pathlib import Path

import pytest
from tools.fifty_epochs import main

from recollect.experiments.files import read_json


def test_what_is_there_is_not_trained_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--benchmarks", "seq-digits", "--folder", str(tmp_path)]
    assert main([*words, "--methods", "er-ace", "--epochs", "1"]) == 0
    assert "1 runs to train" in capsys.readouterr().err
    assert main([*words, "--epochs", "1"]) == 0
    said = capsys.readouterr()
    assert "1 runs to train" in said.err
    assert "| seq-digits | X-DER | 1 |" in said.out
    assert main([*words, "--methods", "er-ace", "--epochs", "2"]) == 0
    capsys.readouterr()
    assert main([*words, "--epochs", "1"]) == 0
    assert "to train" not in capsys.readouterr().err
    found = [(run.method, run.epochs) for run in read_json(tmp_path / "fifty-epochs.jsonl")]
    assert found == [("er-ace", 1), ("x-der", 1), ("er-ace", 2)]
