"""`recollect stream --drift` warns when errors increase, and continues where it was."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Stream = Callable[..., Any]
MOST = 1200


def rows(path: Path, *, count: int, change: int) -> Path:
    """Two classes that are exchanged after so many rows."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, MOST)
    x = 2.0 * labels[:, None] + rng.normal(size=(MOST, 2))
    names = np.where(np.arange(MOST) < change, labels, 1 - labels)
    lines = [f"{a:.4f},{b:.4f},c{n}\n" for (a, b), n in zip(x, names, strict=True)]
    path.write_text("".join(lines[:count]))
    return path


def test_it_warns_at_a_change_and_tells_the_metrics(stream: Stream, tmp_path: Path) -> None:
    path = rows(tmp_path / "rows.csv", count=1200, change=800)
    said = stream(path, "--batch", 20, "--lr", 0.1, "--drift")
    assert said.status == 0
    found = re.search(r"drift alarm at example (\d+): the error rose from", said.err)
    assert found is not None
    assert 800 <= int(found[1]) < 1200
    summary = r"balanced accuracy [\d.]+ % · macro F1 [\d.]+ % · kappa 0\.\d+ · 1 drift alarm, the"
    assert re.search(summary, said.out)


def test_a_stream_without_it_continues_with_it(stream: Stream, tmp_path: Path) -> None:
    path = rows(tmp_path / "rows.csv", count=400, change=1200)
    words = ("--batch", 20, "--lr", 0.1)
    first = stream(path, *words)
    assert first.status == 0
    assert "drift" not in first.out
    rows(tmp_path / "rows.csv", count=1200, change=800)
    again = stream(path, *words, "--drift", "PageHinkley")
    assert again.status == 0
    assert "continuing after 400 examples" in again.err
    assert "1 drift alarm, the last at example" in again.out


def test_another_name_is_refused(
    stream: Stream, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = rows(tmp_path / "rows.csv", count=10, change=10)
    with pytest.raises(SystemExit):
        stream(path, "--drift", "EDDM")
    assert "choose from 'ADWIN'" in capfd.readouterr().err
