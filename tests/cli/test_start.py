"""What the command costs before it does anything."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from recollect.cli.main import COMMANDS, build_parser, main

SHORT = """
import resource, sys
from recollect.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    assert not end.code
assert "torch" not in sys.modules and "numpy" not in sys.modules
used = resource.getrusage(resource.RUSAGE_SELF)
print("CPU", used.ru_utime + used.ru_stime)
"""


@pytest.mark.parametrize("word", ["--version", "--help"])
def test_version_and_help_import_neither_torch_nor_numpy(word: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHORT, word], capture_output=True, text=True, check=True
    )
    said, _, seconds = done.stdout.rpartition("CPU ")
    assert "recollect" in said
    assert float(seconds) < 0.3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("name", ["methods", "run", "stream"])
def test_a_signal_while_it_starts_is_one_line(
    name: str, number: signal.Signals, tmp_path: Path
) -> None:
    (tmp_path / "torch.py").write_text(
        "import os, signal, time\n"
        "try:\n"
        f"    os.kill(os.getpid(), {number:d})\n"
        "    time.sleep(60)\n"
        "except BaseException as error:\n"
        "    raise ImportError('torch is broken') from error\n"
    )
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", "recollect.cli.main", name], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": path}, timeout=30,
    )  # fmt: skip
    assert done.returncode == 128 + number
    assert done.stderr == "recollect: interrupted during startup\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_command_itself_is_imported_is_one_line(
    number: signal.Signals, tmp_path: Path
) -> None:
    # A module that `recollect.cli.main` imports first of all.
    (tmp_path / "shlex.py").write_text(f"import os\nos.kill(os.getpid(), {number:d})\n")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", "recollect", "methods"], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": path}, timeout=30,
    )  # fmt: skip
    assert done.returncode == 128 + number
    assert done.stderr == "recollect: interrupted during startup\n"


def test_an_interrupt_that_is_ignored_stays_ignored() -> None:
    code = """
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
from recollect.cli import main
main.build_parser = lambda *words: signal.raise_signal(signal.SIGINT) or sys.exit(7)
main.main(["methods"])
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 7


def test_every_command_has_options_of_its_own_when_it_is_called() -> None:
    for name in COMMANDS:
        with pytest.raises(SystemExit) as end:
            build_parser([name]).parse_args([name, "--help"])
        assert end.value.code == 0


@pytest.mark.parametrize(
    "words",
    ["run --help seq-digits derpp", "search seq-digits DER++ -h", "stream --method=derpp -h"],
)
def test_help_with_a_method_lists_the_options_of_that_method(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def listed(words: list[str]) -> str:
        with pytest.raises(SystemExit) as end:
            main(words)
        assert end.value.code == 0
        return capsys.readouterr().out

    said = listed(words.split())
    assert "--alpha" in said
    assert "--beta" in said
    assert "--gmbs" not in said
    assert "--help" not in said.partition("hyper-parameters:")[2]
    said = listed([words.split()[0], "--help"])
    assert "--gmbs" in said
    assert "--help" in said.partition("hyper-parameters:")[2], "it says how to see those of one"


def test_help_for_a_method_without_memory_has_no_replay(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["run", "seq-digits", "sgd", "--help"])
    said = capsys.readouterr().out
    assert "--bs" in said
    assert "--mbs" not in said


def test_names_of_the_package_are_there_when_they_are_used() -> None:
    code = """
import recollect, sys
assert "torch" not in sys.modules
assert {"Learner", "streams", "run"} <= set(dir(recollect))
for name in recollect.__all__:
    assert getattr(recollect, name) is not None
from recollect import Learner, streams
try:
    recollect.no_such_name
except AttributeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "module 'recollect' has no attribute 'no_such_name'\n"
