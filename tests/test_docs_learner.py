"""The learner's page: its Python runs, as pasted and in order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "learner.md"


def blocks() -> list[str]:
    text = PAGE.read_text("utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_pages_python_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(blocks()) > 8
    space: dict[str, object] = {}
    for number, block in enumerate(blocks(), 1):
        exec(compile(block, f"block {number} of {PAGE.name}", "exec"), space)
    printed = capsys.readouterr().out
    assert printed.startswith("up 3000 examples, accuracy 9"), "what the first block promises"
    assert "['up', 'down', 'far away']" in printed or "['down', 'up', 'far away']" in printed
    assert "unknown label 'sideways'" in printed
    assert "\n400 400\n1000 1000\n" in printed, "the stream goes on where it stopped"
    assert "not finite (NaN or infinity)" in printed


def test_the_start_is_ten_lines() -> None:
    assert len([line for line in blocks()[0].splitlines() if line.strip()]) <= 10


def test_its_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)\s#]+)", PAGE.read_text("utf-8"))
    assert links
    for link in links:
        assert (PAGE.parent / link).is_file(), link
