"""The tool that trains the commands of the manifest without runs, on a small stream."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tools.train_missing import main

from recollect.experiments.files import read_json

ROOT = Path(__file__).parents[1]
MANIFEST = """commit 0123456789012345678901234567890123456789
digits.jsonl: recollect run seq-digits sgd --seeds 1
digits.jsonl: recollect run seq-digits er --buffer 50 --seeds 2
figures/some.json: recollect figures fisher
"""


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "manifest.txt"
    path.write_text(MANIFEST)
    return path


def test_missing_commands_are_trained_once(
    tmp_path: Path, manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["--out", str(out), "--together", "2"], tmp_path, manifest) == 0
    runs = [run for file in sorted(out.glob("*.json")) for run in read_json(file)]
    assert sorted((run.method, run.seed) for run in runs) == [("er", 0), ("er", 1), ("sgd", 0)]
    assert "2 of 2 commands are done" in capsys.readouterr().out
    assert main(["sgd", "--out", str(out)], tmp_path, manifest) == 0
    said = capsys.readouterr().out
    assert "1 commands" in said
    assert "done before" in said
    assert main(["derpp", "--out", str(out)], tmp_path, manifest) == 0
    assert "no command" in capsys.readouterr().out


def test_nothing_is_started_without_time(
    tmp_path: Path, manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--out", str(tmp_path / "out"), "--time-limit", "1s"], tmp_path, manifest) == 1
    assert capsys.readouterr().out.count("not started") == 2


def test_a_failure_is_told_with_its_last_line(
    tmp_path: Path, manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest.write_text(MANIFEST.replace("seq-digits", "seq-mnist"))
    nowhere = {"RECOLLECT_OFFLINE": "1", "RECOLLECT_CACHE": str(tmp_path / "cache")}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in nowhere.items():
            patch.setenv(name, value)
        patch.delenv("RECOLLECT_DATA", raising=False)
        assert main(["sgd", "--out", str(tmp_path / "out")], tmp_path, manifest) == 1
    said = capsys.readouterr().out
    assert "status 2: " in said
    assert "0 of 1 commands are done" in said


def test_sigterm_stops_all_and_the_same_command_continues(tmp_path: Path, manifest: Path) -> None:
    manifest.write_text(
        f"commit {'0' * 40}\ndigits.jsonl: recollect run seq-digits er --buffer 50 --epochs 130\n"
    )
    out = tmp_path / "out"
    script = (
        "import sys; from pathlib import Path; from tools.train_missing import main; "
        f"sys.exit(main(['--out', {str(out)!r}], Path({str(tmp_path)!r}), Path({str(manifest)!r})))"
    )
    cache = tmp_path / "cache"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
                   "RECOLLECT_CACHE": str(cache)}  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, text=True
    )
    give_up = time.monotonic() + 60
    while not list(cache.glob("unfinished/*/lock")) and time.monotonic() < give_up:
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "the same command continues from there" in said
    assert not list(out.glob("*.json"))
