"""Commands whose output nobody reads to its end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path


def without_a_reader(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command whose output nobody reads any more, as with `| head`."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return subprocess.run(
            [sys.executable, "-m", "recollect.cli.main", *words],
            stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60, cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
    finally:
        os.close(writer)


def test_a_reader_that_has_left_costs_no_results(tmp_path: Path) -> None:
    words = ("run", "seq-digits", "sgd", "--seeds", "1", "--workers", "1", "--json", "runs.json")
    assert without_a_reader(tmp_path, *words).stderr == ""
    assert len(json.loads((tmp_path / "runs.json").read_text())) == 1


def test_a_reader_that_has_left_is_no_error(tmp_path: Path) -> None:
    assert without_a_reader(tmp_path, "benchmarks").returncode == 0
