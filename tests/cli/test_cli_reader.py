"""Commands whose output nobody reads to its end, or cannot be written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


def without_a_reader(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command whose output nobody reads any more, as with `| head`."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return command(writer, folder, *words)
    finally:
        os.close(writer)


def command(output: int, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command with this file descriptor as its standard output."""
    return subprocess.run(
        [sys.executable, "-m", "recollect.cli.main", *words],
        stdout=output, stderr=subprocess.PIPE, text=True, timeout=60, cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip


def test_a_reader_that_has_left_costs_no_results(tmp_path: Path) -> None:
    words = ("run", "seq-digits", "sgd", "--seeds", "1", "--workers", "1", "--json", "runs.json")
    assert without_a_reader(tmp_path, *words).stderr == ""
    assert len(json.loads((tmp_path / "runs.json").read_text())) == 1


def test_a_reader_that_has_left_is_no_error(tmp_path: Path) -> None:
    assert without_a_reader(tmp_path, "benchmarks").returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, as on Linux")
@pytest.mark.parametrize("words", [("benchmarks",), ("stream", "a.csv", "--predictions", "-")])
def test_a_full_disk_is_one_line(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("v,kind\n" + "1,x\n2,y\n" * 10)
    with Path("/dev/full").open("w") as full:
        done = command(full.fileno(), tmp_path, *words)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("recollect: cannot write all output: ")
    assert "Traceback" not in done.stderr
