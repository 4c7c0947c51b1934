"""`recollect doctor`: true, on one screen, and nothing is touched."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path

import pytest
import torch

from recollect.cli import doctor, screen
from recollect.cli.main import main


def test_it_says_what_is_there_and_touches_nothing(
    bare_machine: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert torch.__version__ in said
    assert "0 runs" in said
    for name in ("mnist", "cifar10", "digits", *doctor.EXTRAS):
        assert name in said
    mnist = next(line for line in said.splitlines() if " mnist " in line)
    assert mnist.startswith("-")
    assert len(said.splitlines()) < 25
    assert not Path(os.environ["RECOLLECT_CACHE"]).exists()
    assert not Path(os.environ["RECOLLECT_STORE"]).exists()


def test_an_extra_that_is_missing_names_the_command(
    bare_machine: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = metadata.version

    def version(name: str) -> str:
        if name == "optuna":
            raise metadata.PackageNotFoundError(name)
        return found(name)

    monkeypatch.setattr(metadata, "version", version)
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    search = next(line for line in said.splitlines() if " search " in line)
    assert search.startswith("-")
    assert "pip install 'recollect[search]'" in said


def test_it_fits_a_screen_of_eighty_by_twenty_five(
    bare_machine: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", none)
    monkeypatch.setattr(screen, "WIDE", 80)
    monkeypatch.setenv("RECOLLECT_STORE", "results.sqlite")
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 25
    assert max(map(len, lines)) <= 80


def test_a_store_that_is_none_is_told(
    bare_machine: None, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "x").write_text("nothing")
    assert main(["doctor", "--store", str(tmp_path / "x")]) == 0
    assert "cannot be used" in " ".join(capsys.readouterr().out.split())


def test_the_extras_are_those_of_the_package() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8")
    import tomllib

    declared = set(tomllib.loads(text)["project"]["optional-dependencies"])
    assert set(doctor.EXTRAS) == declared - {"dev", "docs", "examples"}
