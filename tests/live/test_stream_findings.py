"""Rows at the end that cannot be read, where an outlier was read, metrics beside predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from recollect.cli.main import main

ROWS = "".join(f"{n % 2},{n % 3},{'a' if n % 2 else 'b'}\n" for n in range(60))


def stream(file: Path, *words: str) -> int:
    return main(["stream", str(file), "--checkpoint", str(file.with_suffix("")), *words])


def test_an_unreadable_last_row_fails_no_later_run(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(f"u,v,kind\n{ROWS}1,x,a\n")
    words = ["--label", "kind", "--skip-bad"]
    assert [stream(file, *words) for _ in range(3)] == [0, 0, 0]
    with file.open("a") as more:
        more.write("1,z,a\n")
    assert [stream(file, *words) for _ in range(2)] == [1, 0], "a new row that cannot be read"


def test_the_place_of_an_outlier_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(f"u,v,kind\n,1,\n{ROWS}1e9,1,a\n{ROWS}")
    assert stream(file, "--label", "kind", "--skip-bad") == 0
    assert f"the last one is {file}, line 63: " in capsys.readouterr().err
    refused = tmp_path / "other.csv"
    refused.write_text(file.read_text())
    assert stream(refused, "--label", "kind", "--skip-bad", "--on-outlier", "raise") != 0
    said = capsys.readouterr().err
    assert f"{refused}, line " in said
    assert "far outside" in said


def test_predictions_change_no_metric_of_sets_of_labels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words: list[Any] = ["--label", "tags", "--target", "labels", "--lr", "0.1"]
    shown = []
    for number in range(2):
        file = tmp_path / f"{number}.csv"
        file.write_text(
            "u,v,tags\n" + "".join(f"{n % 2},{n % 3},{'up|left' if n % 2 else 'down'}\n"
                                   for n in range(90))
        )  # fmt: skip
        more = ["--predictions", str(tmp_path / "p.jsonl")] if number else []
        assert stream(file, *words, *more) == 0
        shown.append(capsys.readouterr().out)
    assert "average precision" in shown[0]
    assert shown[0] == shown[1]
