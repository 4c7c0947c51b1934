"""Every command on the page about streams works as it stands there."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.docs.pages import blocks_of

from recollect.cli.stream_checks import fit_for_streams
from recollect.methods import every_method

Stream = Callable[..., Any]

PAGE = (Path(__file__).parents[2] / "docs" / "stream.md").read_text("utf-8")
LINES = [line for block in blocks_of(PAGE) for line in block.commands]
COMMANDS = [line for line in LINES if not line.startswith("python -c ")]


@pytest.fixture
def files(bare_machine: None, drifting: Any) -> None:
    """The files that the page speaks of."""
    x, kinds = drifting(60)
    rows = [",".join(map(repr, row)) for row in x.tolist()]
    readings = [f"{row},{kind}\n" for row, kind in zip(rows, kinds, strict=True)]
    Path("readings.csv").write_text("a,b,c,kind\n" + "".join(readings))
    timed = [f"2026-01-01T00:00:{n:02},{row}" for n, row in enumerate(readings)]
    for name in ("sensors", "monday", "tuesday"):
        Path(f"{name}.csv").write_text("time,a,b,c,kind\n" + "".join(timed))
    asked = [f"r{n},{row}\n" for n, row in enumerate(rows)]
    Path("requests.csv").write_text("request,a,b,c\n" + "".join(asked))
    known = [f"r{n},{kind}\n" for n, kind in enumerate(kinds)]
    Path("labels.csv").write_text("request,outcome\n" + "".join(known))
    with Path("events.jsonl").open("w") as events:
        for row, kind in zip(x.tolist(), kinds, strict=True):
            events.write(json.dumps({"id": "e", "reading": row, "kind": kind}) + "\n")
    for number in range(20):
        path = Path("photos") / ("cat" if number % 2 else "dog") / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((20, 30, 3), number, dtype=np.uint8)).save(path)


def test_the_page_has_commands() -> None:
    assert len(COMMANDS) >= 8
    assert len(COMMANDS) == len(LINES) - 1


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_works(
    line: str, files: None, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, _, after = line.rpartition("|")
    words = shlex.split(after)
    assert words[:2] == ["recollect", "stream"]
    more = ["--idle", "0.2s"] if "--follow" in words else []
    if "digits.csv" in words:
        exec(shlex.split(LINES[0])[2])
    if before:
        command, path = shlex.split(before)
        assert command == "cat"
        monkeypatch.setattr(sys, "stdin", Path(path).open())  # noqa: SIM115 - closed below
    said = stream(*words[2:], *more)
    if before:
        sys.stdin.close()
    assert said.status == 0, said.err
    assert "predicted before learning" in said.out + said.err


def test_the_methods_are_those_there_are() -> None:
    part = PAGE[PAGE.index("## Methods and networks") :].split("hyper-parameters are")[0]
    assert {*re.findall(r"`(\w[a-z-]*)`", part)} == {*fit_for_streams(every_method())}
