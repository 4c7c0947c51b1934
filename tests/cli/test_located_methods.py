"""Methods that a command names by file or module: `path/to/file.py:Class`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect import methods
from recollect.cli.main import main
from recollect.experiments.store import Store

SOURCE = '''
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from beside import TITLE
from recollect import Method, Replay, Step, hyper


@dataclass(frozen=True)
class Weighted(Method):
    """Replay with a weight."""

    share: float | Tensor = hyper(1.0, "weight of the replayed loss")

    name: ClassVar[str] = "weighted"
    title: ClassVar[str] = TITLE
    replay: ClassVar[Replay] = Replay(("x", "y"))

    def loss(self, step: Step) -> Tensor:
        past = step.draw()
        now, then = step.net(step.x, past.x)
        return step.criterion(now, step.y) + self.share * step.criterion(then, past.y)


class Same(Weighted):
    name: ClassVar[str] = "derpp"


class Nameless(Method):
    pass


NUMBER = 3
'''


@pytest.fixture
def folder(bare_machine: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a method, where commands are called."""
    code = Path("code")
    code.mkdir()
    (code / "located_weighted.py").write_text(SOURCE)
    (code / "beside.py").write_text("TITLE = 'Weighted replay'\n")
    (code / "located_broken.py").write_text("x = 1\nraise ValueError('not today')\n")
    (code / "json.py").write_text("")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(methods, "_LOCATED", {})
    yield code
    for name in ("located_weighted", "beside", "located_broken"):
        sys.modules.pop(name, None)


def test_a_method_in_a_file_runs_and_its_recorded_command_runs_again(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (
        f"run seq-digits {folder}/located_weighted.py:Weighted --buffer 20 --share 0.5 1 --seeds 1"
    )
    assert main([*words.split(), "--workers", "1"]) == 0
    runs = Store().runs()
    assert [run.hyperparameters["share"] for run in runs] == [0.5, 1.0]
    assert {run.method_title for run in runs} == {"Weighted replay"}
    capsys.readouterr()
    program, *again = shlex.split(runs[0].provenance.command)
    assert program == "recollect"
    assert main(again) == 0
    assert "2 of 2 runs are already in the store" in capsys.readouterr().err
    assert main(["results", "--method", "weighted", "--export", "table.md"]) == 0
    assert "| Weighted replay |" in Path("table.md").read_text("utf-8")


def test_a_module_is_the_same_method_as_its_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--buffer", "20", "--seeds", "1", "--workers", "1"]
    assert main(["run", "seq-digits", f"{folder}/located_weighted.py:Weighted", *options]) == 0
    monkeypatch.chdir(folder)
    assert main(["run", "seq-digits", "located_weighted:Weighted", *options]) == 0
    assert "1 of 1 runs are already in the store" in capsys.readouterr().err


def test_its_hyperparameters_are_in_the_help(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["run", "seq-digits", f"{folder}/located_weighted.py:Weighted", "--help"])
    said = capsys.readouterr().out
    assert "--share" in said
    assert "--alpha" not in said


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("nowhere.py:Weighted", "there is no file 'code/nowhere.py'"),
        ("located_weighted.py:Weigted", "no class 'Weigted' in code/located_weighted.py: did you "
                                        "mean 'Weighted'?"),
        ("located_weighted.py:NUMBER", "NUMBER in code/located_weighted.py is not a method"),
        ("located_weighted.py:Nameless", "has no name: define one"),
        ("located_weighted.py:Same", "there is already a method with the name derpp"),
        ("located_broken.py:Any", "cannot be imported (ValueError: not today, line 2)"),
        ("json.py:Any", "json.py has the name of another module"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_method_is_refused(
    folder: Path, where: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", "seq-digits", f"{folder}/{where}", "--buffer", "20", "--share", "1"]
    assert main(words) == 2
    assert message in capsys.readouterr().err
    assert Store().runs() == []


def test_an_unknown_module_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "seq-digits", "no_such.module:Thing"]) == 2
    assert "no_such.module cannot be imported" in capsys.readouterr().err
