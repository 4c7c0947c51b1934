"""`recollect stream` and rows that cannot be trusted: left out, told, and no ruin."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Stream = Callable[..., Any]


def rows(count: int, seed: int = 0) -> list[list[object]]:
    """Readings of three kinds, which come in turn."""
    rng = np.random.default_rng(seed)
    kinds = np.arange(count) // 50 % 3
    centres = np.array([[0, 0, 0], [2, 0, -2], [0, 3, 2]])
    x = (centres[kinds] + rng.normal(size=(count, 3))) * (1, 1, 30)
    return [[*map(float, row), "abc"[kind]] for row, kind in zip(x, kinds, strict=True)]


def written(path: str, table: list[list[object]]) -> str:
    Path(path).write_text("".join(",".join(map(str, row)) + "\n" for row in table))
    return path


def accuracy(said: Any) -> float:
    found = re.search(r"^all\s+([\d.]+) %$", said.out, re.M)
    assert found
    return float(found[1])


@pytest.mark.parametrize("scaling", ["--standardise", "--no-standardise"])
def test_one_cell_costs_nothing(stream: Stream, scaling: str) -> None:
    table = rows(1500)
    words = (scaling, "--lr", 0.03 if scaling == "--standardise" else 0.002)
    clean = stream(written("clean.csv", table), *words)
    table[700][1] = 1e8
    said = stream(written("bad.csv", table), *words)
    assert said.status == 0
    assert abs(accuracy(said) - accuracy(clean)) < 1
    assert "left out 1 of 10 examples: number 700: feature 1" in said.err
    assert "bad.csv, line 701: column '2' has the magnitude" in said.err
    assert "left out" not in clean.err


def test_many_of_all_kinds_end_within_a_point_of_the_clean_stream(stream: Stream) -> None:
    clean, bad, rng = rows(4000), rows(4000), np.random.default_rng(1)
    wrong: list[Callable[[], object]] = [
        lambda: float(rng.choice([-1, 1]) * 10 ** rng.uniform(3, 30)), lambda: "nan",
        lambda: "inf", lambda: "broken",
    ]  # fmt: skip
    hit = np.flatnonzero(rng.random(4000) < 0.01)
    for number in hit:
        bad[number][rng.integers(3)] = wrong[rng.integers(4)]()
    before = stream(written("clean.csv", clean))
    said = stream(written("bad.csv", bad), "--skip-bad", "--missing", "refuse")
    assert said.status == 0
    assert abs(accuracy(said) - accuracy(before)) < 1
    unread = int(re.search(r"could not be read: (\d+)", said.err)[1])  # type: ignore[index]
    untrusted = int(re.search(r"left out as outliers: (\d+)", said.err)[1])  # type: ignore[index]
    assert len(hit) * 0.9 <= unread + untrusted <= len(hit)
    assert said.err.count("left out 1 of") <= 5, "the first warnings, and how many more there were"
    assert re.search(r"\.\.\. and \d+ more warnings", said.err)


def test_a_run_of_which_every_row_was_bad_has_another_status(stream: Stream) -> None:
    bad: list[object] = ["x", "y", "a"]
    nothing = written("a.csv", [[1, 2, "a"], *[bad] * 5])
    assert stream(nothing, "--skip-bad").status == 0
    nothing = written("b.csv", [["inf", 2, "a"]] * 5)
    said = stream(nothing, "--skip-bad", "--no-header")
    assert said.status == 1
    assert "no row was learned" in said.err
    table = rows(600)
    assert stream(written("c.csv", table)).status == 0
    with Path("c.csv").open("a") as file:
        file.write("1e20,1e20,1e20,a\n" * 3)
    said = stream("c.csv")
    assert said.status == 1
    assert "left out as outliers: 3" in said.err


def test_rows_without_labels_are_not_bad(stream: Stream) -> None:
    said = stream(written("b.csv", [[1, 2, ""]] * 3))
    assert said.status == 0
    assert "no row has a label, so nothing was learned: check the label column" in said.err


def test_the_command_may_end_or_learn_instead(stream: Stream) -> None:
    table = rows(600)
    table[400][0] = 1e6
    said = stream(written("a.csv", table), "--on-outlier", "raise")
    assert said.status == 2
    assert "a.csv, line 401: the row is far outside the range of the stream" in said.err
    assert "--on-outlier learn accepts it" in said.err
    assert "continuing after 400 examples" in stream("a.csv", "--on-outlier", "raise").err
    said = stream("a.csv", "--on-outlier", "learn", "--fresh")
    assert said.status == 0
    assert "left out" not in said.err


def test_quantities_are_not_learned_as_classes(stream: Stream) -> None:
    table = [[row, -row, f"{row / 7:.3f}"] for row in range(20)]
    said = stream(written("a.csv", table))
    assert said.status == 2
    assert "a.csv, line 2: the label 0.143 is not a class" in said.err
    assert "regression" in said.err
    Path("b.jsonl").write_text('{"x": 1, "label": 0.5}\n')
    assert "regression" in stream("b.jsonl").err
    names = written("c.csv", [[row, "1.0" if row % 2 else "2.0"] for row in range(20)])
    assert stream(names).status == 0
    assert stream(written("d.csv", table[1:2] * 9), "--classes", "0.143").status == 0


def test_too_many_classes_are_refused(stream: Stream) -> None:
    said = stream(written("a.csv", [[row, f"id{row}"] for row in range(30)]), "--max-classes", 20)
    assert said.status == 2
    assert "at most 20 (--max-classes)" in said.err
