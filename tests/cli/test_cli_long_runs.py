"""Commands that take hours: a time limit, a fresh start, where and how they train."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from recollect.cli.main import main
from recollect.cli.parser import duration

TRY_AGAIN = 75
RUN = (
    "run", "seq-digits", "er", "--buffer", "50", "--bs", "100", "--seeds", "2", "--workers", "1",
)  # fmt: skip
REPRODUCE = (
    "reproduce", "seq-digits", "--methods", "sgd", "er", "--buffers", "20",
    "--seeds", "1", "--workers", "1",
)  # fmt: skip
LIMITED = ("--time-limit", "0.001s")


class Said(NamedTuple):
    """What a command came to."""

    status: int
    out: str
    err: str

    def numbers(self) -> list[str]:
        """The means and deviations of its table, in which a time ends every row."""
        rows = [re.findall(r"-?\d+\.\d\d(?: ±\d+\.\d\d)?", line) for line in self.out.splitlines()]
        return [number for row in rows for number in row[:-1]]


Command = Callable[..., Said]


@pytest.fixture
def command(
    bare_machine: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Command:
    """`recollect` on a bare machine without a GPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    def say(*words: str) -> Said:
        status = main([*words])
        return Said(status, *capsys.readouterr())

    return say


def unfinished() -> list[Path]:
    """The folders of commands that were stopped."""
    return list((Path(os.environ["RECOLLECT_CACHE"]) / "unfinished").glob("*"))


def written() -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = json.loads(Path("runs.json").read_text())
    passing = ("train_seconds", "made")
    return [{name: value for name, value in r.items() if name not in passing} for r in runs]


@pytest.mark.parametrize(
    ("words", "stops"),
    [(RUN, 5), ((*RUN[:-1], "2"), 5), (REPRODUCE, 10)],
    ids=["run", "two workers", "reproduce"],
)
def test_a_time_limit_stops_and_the_same_command_continues(
    words: tuple[str, ...], stops: int, command: Command
) -> None:
    """Five tasks are five stretches: there is a stop after every one."""
    words = (*words, "--json", "runs.json")
    undisturbed = command(*words, "--store", "other.sqlite")
    expected = written()
    Path("runs.json").unlink()
    assert unfinished() == []
    for stop in range(stops):
        said = command(*words, *LIMITED)
        assert (said.status, said.out) == (TRY_AGAIN, "")
        *others, last = said.err.splitlines()
        sentence = r"recollect: stopped by the time limit after \d+ of \d+ steps; the same .*"
        assert re.fullmatch(sentence, last)
        continuing = "recollect: resuming this command from its checkpoint (--fresh starts over)"
        assert others[:1] == ([continuing] if stop else [])
        assert not Path("runs.json").exists()
        assert len(unfinished()) == 1
    said = command(*words, *LIMITED)
    assert said.status == 0
    assert said.numbers() == undisturbed.numbers() != []
    assert written() == expected
    assert unfinished() == []


def test_a_command_with_another_limit_or_none_is_the_same_command(command: Command) -> None:
    undisturbed = command(*RUN)
    for number, words in enumerate(((), ("--time-limit", "2h"))):
        store = ("--store", f"{number}.sqlite")
        assert command(*RUN, *LIMITED, *store).status == TRY_AGAIN
        said = command(*RUN, *words, *store)
        assert said.status == 0
        assert said.err.startswith("recollect: resuming this command from its checkpoint")
        assert said.numbers() == undisturbed.numbers() != []


def test_another_command_has_nothing_to_continue(command: Command) -> None:
    assert command(*RUN, *LIMITED).status == TRY_AGAIN
    other = command(*RUN, "--lr", "0.07")
    assert other.status == 0
    first = shlex.join(["recollect", *RUN, *LIMITED])
    kept = r"an unfinished run with other options is kept \(\d\.\d MB\)"
    assert re.fullmatch(rf"recollect: {kept}: `{first}` continues it\n", other.err)
    assert len(unfinished()) == 1, "what was stopped still waits"
    assert command("run", "seq-digits", "sgd", *RUN[5:]).err == "", "another method"
    assert command(*RUN).err.startswith("recollect: resuming this command")
    assert unfinished() == []


def test_what_other_code_left_is_not_continued_and_said(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command(*RUN, *LIMITED).status == TRY_AGAIN
    (left,) = unfinished()
    monkeypatch.setattr("recollect.train.job.code_fingerprint", lambda *kinds: "other")
    said = command(*RUN, *LIMITED)
    assert said.err.splitlines()[0] == (
        "recollect: the checkpoint of this command was made by another version of the code: "
        "starting over (--fresh removes the checkpoint)"
    )
    assert len(unfinished()) == 2
    said = command(*RUN, *LIMITED)
    assert said.err.startswith("recollect: resuming this command from its checkpoint")
    assert command(*RUN, "--fresh").err == ""
    assert unfinished() == []
    assert not left.exists()


def test_a_fresh_start_forgets_what_was_stopped(command: Command) -> None:
    def steps(*words: str) -> int:
        said = command(*RUN, *LIMITED, *words)
        assert said.status == TRY_AGAIN
        assert ("resuming" in said.err) == (taken > 0 and not words)
        found = re.search(r"after (\d+) of", said.err)
        assert found is not None
        return int(found[1])

    taken = 0
    first = taken = steps()
    second = taken = steps()
    assert second > first > 0
    assert steps("--fresh") == first
    assert steps() == second


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7200), ("0.5", 0.5)]
)
def test_durations_are_read_as_they_are_meant(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["0", "0s", "0.0h", "-5", "", "soon", "5d", "1h30", "1h30m", "inf", "nan", "1e3", " 5m"]
)
def test_durations_that_cannot_be_meant_are_refused(
    text: str, bare_machine: None, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="such as 90s, 20m or 2h"):
        duration(text)
    with pytest.raises(SystemExit) as left:
        main([*RUN, f"--time-limit={text}"])
    assert left.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[-1].endswith(f"cannot parse the time {text!r}: "
                                              "give a duration such as 90s, 20m or 2h")  # fmt: skip
    assert unfinished() == []


@pytest.mark.parametrize("words", [RUN, REPRODUCE], ids=["run", "reproduce"])
@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("abacus", "unknown device 'abacus': give auto, cpu, cuda or cuda:N"),
        ("cuda", "torch finds no GPU on this machine: do not pass the device 'cuda'"),
        ("cuda:1", "torch finds no GPU on this machine: do not pass the device 'cuda:1'"),
    ],
)
def test_a_device_that_is_not_there_is_refused(
    device: str, message: str, words: tuple[str, ...], command: Command
) -> None:
    said = command(*words, "--device", device, "--json", "runs.json")
    assert said == (2, "", f"recollect: {message}\n")
    assert list(Path().iterdir()) == []


def test_where_and_how_it_trained_is_said(command: Command) -> None:
    for words in (RUN, ("reproduce", "seq-digits", "--methods", "sgd", "--seeds", "1")):
        said = command(*words, "--json", "runs.json", "--force")
        assert said.status == 0
        ways = {(run["device"], run["execution"]) for run in written()}
        assert {device for device, _ in ways} == {"CPU"}
        for device, execution in ways:
            assert execution
            assert f"{device}: {execution}" in said.out


def test_the_papers_number_of_epochs_may_be_given(command: Command) -> None:
    usual, once, twice = (
        command("reproduce", "seq-digits", "--methods", "sgd", "--seeds", "1", *words)
        for words in ((), ("--epochs", "1"), ("--epochs", "2", "--json", "runs.json"))
    )
    assert usual.status == once.status == twice.status == 0
    assert once.numbers() == usual.numbers() != []
    assert twice.numbers() != usual.numbers()
    assert {run["epochs"] for run in written()} == {2}


class TestCacheThatCannotBeWritten:
    """As in a container whose home is read-only."""

    @pytest.fixture(autouse=True)
    def no_cache(self, bare_machine: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "file").touch()
        monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "file" / "cache"))

    def test_costs_no_results(self, command: Command) -> None:
        said = command(*RUN, "--json", "runs.json")
        assert (said.status, said.err) == (0, "")
        assert len(written()) == 2

    def test_is_said_where_it_is_needed(self, command: Command) -> None:
        said = command(*RUN, *LIMITED)
        assert (said.status, said.out) == (2, "")
        (line,) = said.err.splitlines()
        assert line.startswith("recollect: the state of an unfinished run cannot be saved in ")
