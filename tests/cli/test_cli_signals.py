"""Real commands and real signals: what is saved, what is said, and no process that stays."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc"),
    pytest.mark.usefixtures("bare_machine"),
]

COMMAND = ("run", "seq-digits", "er", "--buffer", "50", "--seeds", "4", "--workers", "2")
LONG = (*COMMAND, "--epochs", "130")  # not long enough for steps to be compiled
SAVED = r"recollect: \w+ after [\d,]+ of [\d,]+ steps of all runs: they are saved, and the same .*"
Process = subprocess.Popen[str]
Start = Callable[..., Process]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts `recollect`, with as many threads as torch likes; kills what is left of it."""
    started: list[Process] = []

    def go(*words: str) -> Process:
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        env.pop("OMP_NUM_THREADS", None)
        process = subprocess.Popen(
            [sys.executable, "-m", "recollect", *words], text=True, env=env,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
            # A job in the background of a shell ignores Ctrl+C, and so would its children.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )  # fmt: skip
        started.append(process)
        return process

    yield go
    for process in started:
        for pid in in_session(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.communicate()


def in_session(session: int) -> list[int]:
    """The processes of a session that are not dead."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, number, *_ = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        if int(number) == session and state not in "ZX":
            found.append(int(stat.parent.name))
    return found


def catches_sigterm(pid: int) -> bool:
    """Whether a process has got as far as to set its handlers."""
    status = Path(f"/proc/{pid}/status").read_text()
    (caught,) = re.findall(r"^SigCgt:\s*(\w+)$", status, re.MULTILINE)
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


def wait_until(true: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.02)


def train_a_while(process: Process) -> list[int]:
    """Wait until both workers are at work; all processes of the command."""
    wait_until(lambda: len(in_session(process.pid)) >= 3)
    time.sleep(1.0)
    return in_session(process.pid)


def unfinished() -> list[Path]:
    found = sorted(Path(os.environ["RECOLLECT_CACHE"]).glob("unfinished/*/*"))
    return [path for path in found if path.name != "command"]  # the line that continues them


def runs(name: str) -> list[dict[str, Any]]:
    passing = ("train_seconds", "made")
    found: list[dict[str, Any]] = json.loads(Path(name).read_text())
    return [{key: value for key, value in run.items() if key not in passing} for run in found]


@pytest.mark.parametrize(
    ("number", "to_all"), [(signal.SIGINT, True), (signal.SIGTERM, False), (signal.SIGTERM, True)]
)
def test_a_signal_saves_ends_all_processes_and_says_so(
    number: signal.Signals, to_all: bool, start: Start
) -> None:
    """A terminal sends Ctrl+C to all processes of a command, as a scheduler does SIGTERM."""
    process = start(*LONG)
    train_a_while(process)
    (os.killpg if to_all else os.kill)(process.pid, number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (128 + number, "")
    first, last = err.splitlines()
    assert first.startswith("recollect: saving the state, then stopping")
    assert re.fullmatch(SAVED, last)
    assert in_session(process.pid) == []
    assert [path.suffix for path in unfinished()] == [".safetensors"] * 2


def test_what_was_saved_continues_to_the_same_results(start: Start) -> None:
    command = (*COMMAND, "--epochs", "4")
    process = start(*command)
    wait_until(lambda: len(in_session(process.pid)) >= 3)
    process.terminate()
    assert re.fullmatch(SAVED, process.communicate(timeout=60)[1].splitlines()[-1])
    again = start(*command, "--json", "again.json")
    _, err = again.communicate(timeout=120)
    assert again.returncode == 0
    assert err.startswith("recollect: resuming this command from its checkpoint")
    whole = start(*command, "--json", "whole.json", "--store", "other.sqlite")
    whole.communicate(timeout=120)
    assert runs("again.json") == runs("whole.json")
    assert unfinished() == []


def test_a_second_interrupt_ends_it_at_once(start: Start) -> None:
    process = start(*LONG)
    workers = train_a_while(process)[1:]
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)  # they cannot save
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("recollect: saving the state")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == (
        "recollect: interrupted and ended at once: the same command starts again from the "
        "beginning\n"
    )
    assert in_session(process.pid) == []


def test_workers_whose_parent_is_killed_save_and_end(start: Start) -> None:
    process = start(*LONG)
    train_a_while(process)
    process.kill()
    wait_until(lambda: not in_session(process.pid), 60)
    assert [path.suffix for path in unfinished() if path.name != "lock"] == [".safetensors"] * 2
    again = start(*LONG)
    assert again.stderr is not None
    assert "resuming this command from its checkpoint" in again.stderr.readline()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_at_any_time_are_a_sentence_and_leave_no_process(
    number: signal.Signals, start: Start
) -> None:
    """From its first instant on: while it imports, reads data and starts workers."""
    for delay in (0.0, 0.3, 1.0, 2.5):
        process = start(*LONG)
        wait_until(lambda process=process: catches_sigterm(process.pid))  # type: ignore[misc]
        time.sleep(delay)
        os.killpg(process.pid, number)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 128 + number, err
        assert re.match(r"recollect: (interrupted during startup|interrupted|terminated)",
                        err.splitlines()[-1]), err  # fmt: skip
        assert "Traceback" not in err
        assert in_session(process.pid) == []


def test_a_second_process_of_a_command_is_refused_and_harms_nothing(start: Start) -> None:
    first = start(*LONG)
    train_a_while(first)
    for words in ((), ("--fresh",)):
        second = start(*LONG, *words)
        out, err = second.communicate(timeout=60)
        assert (second.returncode, out) == (2, "")
        assert err == (
            f"recollect: another process ({first.pid}) is training the same runs: wait for it or "
            f"stop it, then run the same command again\n"
        )
    first.send_signal(signal.SIGINT)
    assert re.fullmatch(SAVED, first.communicate(timeout=60)[1].splitlines()[-1])


def test_an_interrupt_within_exec_of_a_string_has_the_same_status() -> None:
    """As while a dataclass is made: CPython notes it, and ends by SIGINT although it was caught."""
    script = (
        "import sys\n"
        "import recollect.cli.lists as lists\n"
        "from recollect.cli.main import main\n"
        "interrupt = lambda chosen: exec('raise KeyboardInterrupt')\n"
        "lists.configure = lambda parser, *methods: parser.set_defaults(command=interrupt)\n"
        "sys.exit(main(['benchmarks']))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], text=True, capture_output=True)
    assert (done.returncode, done.stderr) == (130, "recollect: interrupted\n")
