"""What the tests of commands share."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from recollect.cli.main import main


class Said(NamedTuple):
    """What a command came to."""

    status: int
    out: str
    err: str

    def rows(self) -> list[list[str]]:
        """What stands in the cells of the table's rows, without its head and empty cells."""
        lines = self.out.splitlines()
        rule = next(n for n, line in enumerate(lines) if "───" in line)
        after = enumerate(lines[rule + 1 :], rule + 1)
        ends = (n for n, line in after if line.startswith("✓ |") or " · " in line)
        end = next(ends, len(lines) - 1)
        rows = [line for line in lines[rule + 1 : end] if line.strip()]
        return [re.findall(r"-?[\d.]+ ±[\d.]+|General CL|\S+", row) for row in rows]

    def listed(self) -> list[list[str]]:
        """The cells of a list's rows, without its head."""
        lines = [line for line in self.out.splitlines() if line.startswith("│")]
        return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


Command = Callable[..., Said]


@pytest.fixture
def command(bare_machine: None, capsys: pytest.CaptureFixture[str]) -> Command:
    """`recollect` on a bare machine."""

    def say(*words: str) -> Said:
        status = main([*words])
        return Said(status, *capsys.readouterr())

    return say


class Streamed(NamedTuple):
    """What `recollect stream` came to."""

    status: int
    out: str
    err: str


Stream = Callable[..., Streamed]


@pytest.fixture
def stream(bare_machine: None, capfd: pytest.CaptureFixture[str]) -> Stream:
    """`recollect stream` in an empty folder, with a small network."""

    def say(*words: object) -> Streamed:
        small = () if {"--hidden", "resnet18"} & {*words} else ("--hidden", "16")
        status = main(["stream", *map(str, words), *small])
        return Streamed(status, *capfd.readouterr())

    return say


@pytest.fixture(scope="session")
def drifting() -> Callable[..., tuple[np.ndarray, list[str]]]:
    """Sensor readings of three kinds, in units of very different size, whose kinds come in turn."""

    def some(count: int) -> tuple[np.ndarray, list[str]]:
        rng = np.random.default_rng(7)
        kinds = (np.arange(count) * 3 // count + rng.integers(0, 2, count)) % 3
        centres = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1]]) * 6
        x = centres[kinds] + rng.normal(size=(count, 3))
        x = (x * [1e-3, 1, 1e4] + [0, 20, 1e6]).astype(np.float32)
        return x, [("idle", "läuft", "hot")[kind] for kind in kinds]

    return some


@pytest.fixture
def sensors(bare_machine: None, drifting: Any) -> Callable[..., Path]:
    """A file of readings in the folder of the command: `sensors(200)`, or some rows of those."""

    def write(count: int, name: str = "sensors.csv", start: int = 0, stop: int = -1) -> Path:
        x, y = drifting(count)
        stop = count if stop < 0 else stop
        rows = [*zip(x.tolist(), y, strict=True)][start:stop]
        path = Path(name)
        if path.suffix == ".csv":
            lines = ["a,b,c,kind\n"] if start == 0 else []
            lines += [f"{','.join(map(repr, row))},{label}\n" for row, label in rows]
        else:
            lines = [
                json.dumps({**dict(zip("abc", row, strict=True)), "kind": label}) + "\n"
                for row, label in rows
            ]
        path.write_text("".join(lines), "utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def told() -> Callable[[str | Path], list[dict[str, Any]]]:
    """The lines of a file of predictions."""

    def read(path: str | Path) -> list[dict[str, Any]]:
        return [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]

    return read


@pytest.fixture
def files(bare_machine: None, drifting: Any) -> Callable[..., tuple[list[str], list[str]]]:
    """Writes requests.csv and labels.csv, the labels as `change` leaves them; the lines of both."""

    def write(
        count: int, change: Callable[[list[str]], list[str]] = lambda rows: rows
    ) -> tuple[list[str], list[str]]:
        x, y = drifting(count)
        rows = [f"r{n},{','.join(map(repr, row))}\n" for n, row in enumerate(x.tolist())]
        labels = change([f"r{n},{kind}\n" for n, kind in enumerate(y)])
        Path("requests.csv").write_text("".join(["request,a,b,c\n", *rows]), "utf-8")
        Path("labels.csv").write_text("".join(["request,kind\n", *labels]), "utf-8")
        return rows, labels

    return write
