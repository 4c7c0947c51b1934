"""`--network`, `--hidden` and `--width`: another network than the benchmark's."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect.cli.main import main
from recollect.experiments.store import Store

SOURCE = """
from math import prod

from torch import nn


class Small(nn.Sequential):
    def __init__(self, classes, shape, hidden=8):
        layers = nn.Linear(prod(shape), hidden), nn.ReLU(), nn.Linear(hidden, classes)
        super().__init__(nn.Flatten(), *layers)


def of_stream(stream):
    return Small(stream.classes, stream.shape, hidden=9)


def deep(depth):
    return nn.Linear(64, depth)


fixed = Small(10, (8, 8))
NUMBER = 3
"""
RUN = ["run", "seq-digits", "er", "--buffer", "20", "--seeds", "1", "--workers", "1"]


@pytest.fixture
def file(bare_machine: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A file with networks, in the folder where commands are called."""
    Path("located_networks.py").write_text(SOURCE)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield "located_networks.py"
    sys.modules.pop("located_networks", None)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("--hidden 20 30", "MLP(hidden=[20, 30])"),
        ("--network linear", "Linear"),
        ("--network FILE:Small", "Small"),
        ("--network=FILE:Small", "Small"),
        ("--network located_networks:of_stream", "Small"),
        ("--network FILE:fixed", "Small"),
        ("--network mlp", ""),
        ("--hidden 100 100", ""),
    ],
)
def test_a_network_is_trained_and_named(
    file: str, options: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = options.replace("FILE", file).split()
    assert main([*RUN, *words]) == 0
    (run,) = Store().runs()
    assert run.network_class == named
    title = capsys.readouterr().out.splitlines()[0]
    assert title == " · ".join(["seq-digits", "er", *([named] if named else []), "1 seed"])
    again = shlex.split(run.provenance.command)[1:]
    assert main(again) == 0
    assert "1 of 1 runs are already in the store" in capsys.readouterr().err


def test_networks_are_told_apart(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    for options in ([], ["--hidden", "20"], ["--hidden", "30"], ["--network", f"{file}:Small"]):
        assert main([*RUN, *options]) == 0
    capsys.readouterr()
    assert main(["results"]) == 0
    said = capsys.readouterr().out
    for name in ("default", "MLP(hidden=[20])", "MLP(hidden=[30])", "Small"):
        assert f"network {name}" in said


def test_an_option_names_no_method(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "seq-digits", "er", "--network", f"{file}:Small", "--help"])
    said = capsys.readouterr().out
    assert "--network" in said
    assert "--alpha" not in said


def test_a_search_with_another_network_is_not_compared_with_the_paper(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--buffer", "200", "--lr", "0.1", "--seeds", "1", "--workers", "1", "--hidden", "20"]
    assert main(["search", "seq-digits", "er", *options]) == 0
    assert {run.network_class for run in Store().runs()} == {"MLP(hidden=[20])"}
    assert "the paper chose" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--network mpl", "unknown network 'mpl': did you mean 'mlp'?"),
        ("--network FILE:Smal", "no network 'Smal' in located_networks.py: did you mean 'Small'?"),
        ("--network FILE:NUMBER", "NUMBER in located_networks.py is not a network"),
        ("--network FILE:deep", "deep in located_networks.py needs the argument depth"),
        ("--network nowhere.py:Small", "there is no file 'nowhere.py'"),
        ("--network resnet18", "resnet18 needs images"),
        ("--network mlp --width 20", "--width is for resnet18, but the network is mlp"),
        ("--width 20", "--width is for resnet18, but the network is mlp"),
        ("--network linear --hidden 3", "--hidden is for the mlp, but the network is linear"),
        ("--network FILE:Small --hidden 3", "but the network is located_networks.py:Small"),
        ("--hidden 0", "--hidden and --width must be at least 1"),
    ],
)
def test_what_cannot_be_a_network_is_refused(
    file: str, options: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*RUN, *options.replace("FILE", file).split()]) == 2
    assert message in capsys.readouterr().err
    assert Store().runs() == []
