"""The commands that list methods and benchmarks, and the version."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.cli.conftest import Command

import recollect
from recollect.cli import screen
from recollect.cli.main import main
from recollect.methods import METHODS
from recollect.streams import BENCHMARKS


def test_methods_are_listed_with_what_they_need(command: Command) -> None:
    said = command("methods")
    assert (said.status, said.err) == (0, "")
    head, _, *lines = said.out.splitlines()
    assert head.split() == ["name", "title", "needs", "what", "it", "does"]
    cells = {row[0]: row for line in lines if len(row := re.split(r"\s{2,}", line.rstrip())) == 4}
    assert list(cells) == list(METHODS)
    assert cells["derpp"][1:3] == ["DER++", "-"]
    assert cells["derpp"][3].startswith("DER with a second draw")
    assert cells["joint"][2] == "all data"
    assert cells["pnn"][2] == "boundaries, task id"
    assert "recollect methods NAME prints its hyper-parameters" in said.out


def test_a_narrow_terminal_lists_methods_without_titles(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screen, "WIDE", 80)
    said = command("methods")
    assert said.out.splitlines()[0].split() == ["name", "needs", "what", "it", "does"]
    assert max(map(len, said.out.splitlines())) <= 80
    assert len(said.out.splitlines()) < 3 * len(METHODS), "two lines for most methods"


def test_a_method_is_described_with_what_it_stores_and_requires(command: Command) -> None:
    said = command("methods", "derpp", "pnn")
    assert "stores: x, y, logits · needs: -" in said.out
    marks = [line for line in said.out.splitlines() if line.startswith("requirements")]
    assert [line.count("✓") for line in marks] == [4, 1]
    assert "✓ online learning" in marks[1]
    assert re.search(r"^--alpha +0.5 +weight of", said.out, re.MULTILINE)


def test_benchmarks_are_listed_with_their_settings(command: Command) -> None:
    said = command("benchmarks")
    assert (said.status, said.err) == (0, "")
    cells = {row[0]: row for row in said.listed() if row[0]}
    assert list(cells) == list(BENCHMARKS)
    assert cells["seq-mnist"][2:5] == ["5", "10", "mnist"]
    assert cells["mnist-360"][1] == "General CL"
    assert cells["rot-digits"][2:5] == ["20", "32", "digits"]


def test_the_version(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        command("--version")
    assert left.value.code == 0
    assert capsys.readouterr().out == f"recollect {recollect.__version__}\n"


def test_a_misspelt_store_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results", "--store", str(tmp_path / "nothing.sqlite")]) == 2
    assert "correct --store" in capsys.readouterr().err


def test_without_a_terminal_every_row_is_one_whole_line(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    listed = command("benchmarks").listed()
    assert [row[0] for row in listed] == [*BENCHMARKS]
    assert [row[-1] for row in listed] == [each.description for each in BENCHMARKS.values()]
