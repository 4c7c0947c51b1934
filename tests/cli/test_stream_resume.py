"""A stream that is stopped anywhere and continued ends as if it had not been."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from recollect.cli.main import main
from recollect.live.state import Predictions
from recollect.methods.usual import USUAL

Command = Callable[..., Any]
Stream = Callable[..., Any]
Sensors = Callable[..., Path]
Told = Callable[[str | Path], list[dict[str, Any]]]

OUT = ("--predictions", "p.jsonl")


class Killed(BaseException):
    """The process is gone: nothing may be tidied up."""


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Lets the process end while the n-th batch of predictions is half written."""
    real = Predictions.write

    def after(batches: int) -> None:
        left = [batches]

        def write(self: Predictions, lines: Any) -> None:
            left[0] -= 1
            if left[0] == 0:
                real(self, lines[: len(lines) // 2])
                raise Killed
            real(self, lines)

        monkeypatch.setattr(Predictions, "write", write)

    yield after
    monkeypatch.setattr(Predictions, "write", real)


def state(folder: Path) -> dict[str, Any]:
    """All tensors and facts of the newest checkpoint."""
    newest = max(folder.glob("*.recollect"))
    return {name: tensor.tolist() for name, tensor in load_file(newest).items()}


def folder() -> Path:
    """Where the command keeps its state if it is not told."""
    (found,) = Path(".recollect").iterdir()
    return found


def test_every_kill_leads_to_the_same_end(
    stream: Stream, sensors: Sensors, killed: Callable[[int], None]
) -> None:
    path = sensors(300)
    assert stream(path, *OUT, "--checkpoint", "whole").status == 0
    whole = Path("p.jsonl").read_bytes()
    Path("p.jsonl").unlink()
    rng = random.Random(0)
    for batches in [1, 2, 3, *(rng.randint(1, 12) for _ in range(5))]:
        killed(batches)
        with pytest.raises(Killed):
            stream(path, *OUT, "--checkpoint", "parts", "--every", 3)
    killed(1000)
    assert stream(path, *OUT, "--checkpoint", "parts", "--every", 3).status == 0
    assert Path("p.jsonl").read_bytes() == whole
    assert state(Path("parts")) == state(Path("whole"))


def in_a_child(words: list[str]) -> None:
    with Path(os.devnull).open("w") as nowhere:
        sys.stdout = sys.stderr = nowhere
        os._exit(main(words))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_killed_process_loses_nothing(stream: Stream, sensors: Sensors) -> None:
    path = sensors(1000)
    assert stream(path, *OUT, "--checkpoint", "whole").status == 0
    whole = Path("p.jsonl").read_bytes()
    Path("p.jsonl").unlink()
    words = ["stream", str(path), *OUT, "--checkpoint", "parts", "--every", "2", "--hidden", "16"]
    rng = random.Random(1)
    fork, ends = multiprocessing.get_context("fork"), []
    for _ in range(6):
        child = fork.Process(target=in_a_child, args=(words,))
        child.start()
        time.sleep(rng.uniform(0.05, 0.5))
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        ends.append(child.exitcode)
    assert -signal.SIGKILL in ends, "not one was killed before its end"
    assert stream(path, *OUT, "--checkpoint", "parts", "--every", 2).status == 0
    assert Path("p.jsonl").read_bytes() == whole
    assert state(Path("parts")) == state(Path("whole"))


def test_a_file_that_has_grown_continues_where_it_ended(stream: Stream, sensors: Sensors) -> None:
    assert stream(sensors(200), *OUT, "--checkpoint", "whole").status == 0
    whole = Path("p.jsonl").read_bytes()
    Path("p.jsonl").unlink()
    for stop in (70, 70, 120, 200):
        said = stream(sensors(200, stop=stop), *OUT)
        assert said.status == 0
        assert f"{stop} examples" in said.out
    assert Path("p.jsonl").read_bytes() == whole
    assert {**state(folder()), "facts": 0} == {**state(Path("whole")), "facts": 0}


def test_further_files_continue_what_was_learned(
    stream: Stream, sensors: Sensors, told: Told
) -> None:
    monday = sensors(100, "monday.csv", stop=50)
    stream(monday, *OUT, "--checkpoint", "week")
    tuesday = sensors(100, "tuesday.csv", start=50)
    said = stream(tuesday, *OUT, "--checkpoint", "week")
    assert "continuing after 50 examples" in said.err
    assert [line["n"] for line in told("p.jsonl")] == [*range(1, 101)]
    said = stream(monday, tuesday, *OUT, "--checkpoint", "week")
    assert "100 examples" in said.out, "both were read before"
    stream(sensors(100), "--predictions", "q.jsonl", "--checkpoint", "whole")
    both = told("p.jsonl"), told("q.jsonl")
    assert [line["line"] for line in both[0]] == [*range(2, 52), *range(1, 51)]
    for line in (*both[0], *both[1]):
        del line["line"]
    assert both[0] == both[1]


def test_fresh_starts_over(stream: Stream, sensors: Sensors) -> None:
    path = sensors(60)
    stream(path, *OUT)
    first = Path("p.jsonl").read_bytes()
    said = stream(path, *OUT, "--fresh")
    assert "continuing" not in said.err
    assert Path("p.jsonl").read_bytes() == first
    said = stream(path, *OUT, "--fresh", "--memory", 7)
    assert said.status == 0
    assert len([*folder().glob("*.recollect")]) == 1


@pytest.mark.parametrize(
    ("words", "before", "now"),
    [
        (("--memory", 100), "--memory 500", "--memory 100"),
        (("--method", "er"), "--method derpp", "--method er"),
        (("--alpha", 0.2), f"--alpha {USUAL.alpha:g}", "--alpha 0.2"),
        (("--method", "derpp"), f"--alpha {USUAL.alpha:g}", "--alpha 0.5"),
        (("--lr", 0.1), "--lr 0.03", "--lr 0.1"),
        (("--hidden", 4, 4), "--hidden 16", "--hidden 4 4"),
        (("--ignore", "a"), "no --ignore", "--ignore a"),
        (("--no-standardise",), "no --standardise", "--standardise False"),
        (("--classes", "x", "y"), "no --classes", "--classes x y"),
        (("--seed", 1), "--seed 0", "--seed 1"),
        (("--batch", 5), "--batch 10", "--batch 5"),
        (("--momentum", 0.9), "no --momentum", "--momentum 0.9"),
        (("--momentum", 0.9, "--nesterov"), "no --momentum", "--momentum 0.9"),
        (("--schedule", "step", "--decay-every", 9), "no --decay-every", "--decay-every 9"),
    ],
)
def test_other_settings_are_refused(
    words: tuple[object, ...], before: str, now: str, stream: Stream, sensors: Sensors
) -> None:
    path = sensors(30)
    stream(path)
    said = stream(path, *words)
    assert said.status == 2
    assert f"was saved with {before}, not with {now}" in said.err
    assert "--fresh starts over" in said.err


@pytest.mark.parametrize("chosen", [(), ("--alpha", 0.2)])
def test_a_state_goes_on_with_the_default_that_it_began_with(
    chosen: tuple[object, ...], stream: Stream, sensors: Sensors
) -> None:
    """Before, the default was DERpp(), whatever was given besides; `--fresh` takes today's."""
    path = sensors(30)
    stream(path, "--method", "derpp", *chosen)
    said = stream(path, *chosen)
    assert said.status == 0
    assert "continuing after 30 examples" in said.err
    assert settings_of(folder())["beta"] == 0.5
    assert stream(path, *chosen, "--fresh").status == 0
    assert settings_of(folder())["beta"] == USUAL.beta


def test_a_head_in_closed_form_reads_the_columns_and_an_older_state_goes_on(
    command: Command, sensors: Sensors
) -> None:
    """Before, it read features of hidden layers that nothing trains."""
    words = ("stream", str(sensors(30)), "--method", "slda")
    assert command(*words).status == 0
    assert settings_of(folder())["hidden"] == []
    assert command(*words, "--hidden", "100", "100", "--fresh").status == 0
    assert "continuing after 30 examples" in command(*words).err
    assert settings_of(folder())["hidden"] == [100, 100]


def settings_of(state: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((state / "stream.json").read_text())["settings"]
    return found


def test_another_label_is_another_stream(stream: Stream, sensors: Sensors) -> None:
    path = sensors(30)
    stream(path, "--ignore", "a")
    assert stream(path, "--label", "kind", "--ignore", "b").status == 0
    assert len([*Path(".recollect").iterdir()]) == 2


def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(
    stream: Stream, sensors: Sensors
) -> None:
    path = sensors(100)
    stream(path, *OUT, "--every", 3)
    whole = Path("p.jsonl").read_bytes()
    newest = max(folder().glob("*.recollect"))
    newest.write_bytes(newest.read_bytes()[:1000])
    said = stream(path, *OUT)
    assert "continuing after 90 examples" in said.err
    assert Path("p.jsonl").read_bytes() == whole


def test_without_a_whole_state_it_says_so(stream: Stream, sensors: Sensors) -> None:
    path = sensors(30)
    stream(path)
    (folder() / "stream.json").write_text("{}")
    said = stream(path)
    assert said.status == 2
    assert "has checkpoints but no readable stream.json" in said.err
    assert stream(path, "--fresh").status == 0


def test_predictions_that_were_changed_are_not_continued(stream: Stream, sensors: Sensors) -> None:
    stream(sensors(60, stop=30), *OUT)
    path = sensors(60)
    Path("p.jsonl").write_text("short\n")
    said = stream(path, *OUT)
    assert said.status == 2
    assert "p.jsonl is shorter than the predictions written before" in said.err
    Path("p.jsonl").unlink()
    said = stream(path, *OUT)
    assert said.status == 2
    assert "cannot continue the predictions" in said.err
    said = stream(path, "--predictions", "rest.jsonl")
    assert said.status == 0
    assert json.loads(Path("rest.jsonl").read_text().splitlines()[0])["n"] == 31


def test_a_source_that_was_replaced_by_a_shorter_one(stream: Stream, sensors: Sensors) -> None:
    stream(sensors(60))
    said = stream(sensors(60, stop=20))
    assert said.status == 2
    assert "is shorter than the part that was read before" in said.err


def test_two_at_once_are_refused(
    stream: Stream, sensors: Sensors, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("fcntl")
    path = sensors(40)
    inner: list[int] = []
    real = Predictions.write

    def write(self: Predictions, lines: Any) -> None:
        real(self, lines)
        if not inner:
            inner.append(0)
            inner.append(main(["stream", str(path), "--hidden", "16", "--fresh"]))

    monkeypatch.setattr(Predictions, "write", write)
    said = stream(path)
    assert (said.status, inner[1]) == (0, 2)
    assert f"in use by another learner of this process ({os.getpid()})" in said.err
    assert "choose another --checkpoint" in said.err


class TestStandardInput:
    """What comes through a pipe is new, unless it is said to be replayed."""

    @pytest.fixture
    def piped(self, stream: Stream, monkeypatch: pytest.MonkeyPatch) -> Stream:
        def run(path: Path, *words: object) -> Any:
            with path.open() as source:
                monkeypatch.setattr(sys, "stdin", source)
                return stream("-", *words)

        return run

    def test_new(self, piped: Stream, sensors: Sensors, told: Told) -> None:
        piped(sensors(60, stop=30), *OUT)
        said = piped(sensors(60, "more.csv", start=30), *OUT)
        assert "continuing after 30 examples" in said.err
        piped(sensors(60), "--predictions", "q.jsonl", "--checkpoint", "whole")
        assert told("p.jsonl") == told("q.jsonl")

    def test_replayed(
        self, piped: Stream, sensors: Sensors, told: Told, killed: Callable[[int], None]
    ) -> None:
        path = sensors(60)
        killed(4)
        with pytest.raises(Killed):
            piped(path, *OUT, "--every", 2)
        killed(1000)
        said = piped(path, *OUT, "--every", 2, "--replayed")
        assert "continuing after 20 examples" in said.err
        piped(path, "--predictions", "q.jsonl", "--checkpoint", "whole")
        assert told("p.jsonl") == told("q.jsonl")
