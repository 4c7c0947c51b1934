"""The commands that list methods and benchmarks, and the version."""

from __future__ import annotations

import pytest
from tests.cli.conftest import Command

import recollect
from recollect.methods import METHODS
from recollect.streams import BENCHMARKS


def test_methods_are_listed_with_what_they_need(command: Command) -> None:
    said = command("methods")
    assert (said.status, said.err) == (0, "")
    cells = {row[0]: row for row in said.listed() if row[0]}
    assert list(cells)[: len(METHODS)] == list(METHODS)
    assert cells["derpp"][1:4] == ["DER++", "lr, alpha, beta,", "x, y, logits"]  # and one more line
    assert cells["joint"][4] == "all data"
    assert cells["pnn"][4].startswith("task")
    assert cells["sgd"][2:5] == ["lr", "-", "-"]
    assert cells["DER++"][1:] == ["✓"] * 4
    assert cells["PNN"][1:] == ["-", "-", "✓", "-"]


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
