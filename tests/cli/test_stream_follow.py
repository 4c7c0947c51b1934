"""Streams that go on: files that grow, signals, silence."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from recollect.live import LiveStream

Stream = Callable[..., Any]
Sensors = Callable[..., Path]
Told = Callable[[str | Path], list[dict[str, Any]]]


def wait_for(what: Callable[[], bool]) -> None:
    for _ in range(1200):
        if what():
            return
        time.sleep(0.05)
    raise AssertionError("it never came")


def signal_at_batch(
    which: int, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> list[int]:
    """Raises a signal while a batch is taken; the sizes of all batches, as they are."""
    real, taken = LiveStream._take, []

    def take(self: LiveStream, batch: Any) -> None:
        taken.append(len(batch))
        if len(taken) == which:
            signal.raise_signal(number)
        real(self, batch)

    monkeypatch.setattr(LiveStream, "_take", take)
    return taken


def lines_in(path: str) -> int:
    return Path(path).read_bytes().count(b"\n") if Path(path).exists() else 0


def test_a_growing_file_is_followed_until_it_is_silent(
    stream: Stream, sensors: Sensors, told: Told
) -> None:
    whole = sensors(60).read_bytes()
    path = Path("growing.csv")
    ends = [100, 101, len(whole) // 2, len(whole) // 2 + 3, len(whole)]
    path.write_bytes(whole[: ends[0]])
    seen: list[int] = []

    def grow() -> None:
        for start, end in pairwise(ends):
            wanted = whole[:start].count(b"\n") - 1
            wait_for(partial(lambda rows: lines_in("p") >= rows, wanted))
            seen.append(lines_in("p"))
            with path.open("ab") as file:
                file.write(whole[start:end])

    writer = threading.Thread(target=grow)
    writer.start()
    said = stream(path, "--follow", "--idle", "3s", "--predictions", "p")
    writer.join()
    assert said.status == 0
    assert [line["n"] for line in told("p")] == [*range(1, 61)]
    assert seen == [whole[:end].count(b"\n") - 1 for end in ends[:-1]], "small batches are not held"
    assert "60 examples" in said.out


def test_waiting_for_the_first_line_ends_too(stream: Stream) -> None:
    Path("empty.csv").touch()
    said = stream("empty.csv", "--follow", "--idle", "0.3s")
    assert said.status == 0
    assert "no example to learn from" in said.err


def test_a_silent_pipe_ends(stream: Stream, monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading) as source, os.fdopen(writing, "wb", buffering=0) as target:
        monkeypatch.setattr(sys, "stdin", source)
        target.write(b"1,x\n2,y\n3,")
        said = stream("-", "--idle", "1s", "--predictions", "p")
    assert said.status == 0
    assert [line["label"] for line in told("p")] == ["x", "y"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_followed_file_cleanly(
    number: signal.Signals, stream: Stream, sensors: Sensors, told: Told
) -> None:
    path = sensors(40, stop=25)

    def end() -> None:
        wait_for(lambda: lines_in("p") == 25)
        os.kill(os.getpid(), number)

    sender = threading.Thread(target=end)
    sender.start()
    said = stream(path, "--follow", "--predictions", "p")
    sender.join()
    assert said.status == 0
    assert "25 examples" in said.out
    said = stream(sensors(40), "--predictions", "p")
    assert "continuing after 25 examples" in said.err
    assert [line["n"] for line in told("p")] == [*range(1, 41)]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_in_the_middle_of_a_file_saves_and_says_so(
    number: signal.Signals, status: int,
    stream: Stream, sensors: Sensors, told: Told, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    path = sensors(200)
    stream(path, "--predictions", "whole", "--checkpoint", "whole-state")
    signal_at_batch(5, number, monkeypatch)
    said = stream(path, "--predictions", "p")
    assert said.status == status
    assert "interrupted; the state is saved, and the same command resumes" in said.err
    assert len(told("p")) == 50
    assert stream(path, "--predictions", "p").status == 0
    assert Path("p").read_bytes() == Path("whole").read_bytes()


def test_the_second_interrupt_does_not_wait(
    stream: Stream, sensors: Sensors, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take(self: LiveStream, batch: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(LiveStream, "_take", take)
    before = signal.getsignal(signal.SIGINT)
    said = stream(sensors(40))
    assert said.status == 130
    assert said.err.splitlines()[1:] == ["recollect: interrupted"]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_stopped_pipe_loses_nothing_that_was_taken(
    stream: Stream, sensors: Sensors, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = sensors(57).read_bytes()
    reading, writing = os.pipe()
    taken = signal_at_batch(2, signal.SIGINT, monkeypatch)
    with os.fdopen(reading) as source, os.fdopen(writing, "wb", buffering=0) as target:
        monkeypatch.setattr(sys, "stdin", source)
        target.write(text)
        said = stream("-", "--predictions", "p")
    assert said.status == 0
    assert taken == [10] * 5 + [7]
    assert len(told("p")) == 57


def test_a_reader_of_the_output_that_goes_away(
    stream: Stream, sensors: Sensors, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = sensors(40)
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        assert stream(path, "--predictions", "-").status == 0
        monkeypatch.undo()


def test_a_log_that_is_rotated_is_followed_into_the_new_file(
    stream: Stream, sensors: Sensors, told: Told
) -> None:
    header, *rows = sensors(60).read_text().splitlines(keepends=True)
    path = Path("rotated.csv")
    path.write_text(header + "".join(rows[:25]))

    def rotate() -> None:
        wait_for(lambda: lines_in("p") == 25)
        path.rename("rotated.1")
        path.write_text(header + "".join(rows[25:]))

    writer = threading.Thread(target=rotate)
    writer.start()
    said = stream(path, "--follow", "--idle", "3s", "--predictions", "p")
    writer.join()
    assert said.status == 0
    assert "was replaced: reading the new file" in said.err
    said = stream("sensors.csv", "--predictions", "whole")
    assert [line["label"] for line in told("p")] == [line["label"] for line in told("whole")]


def test_the_command_goes_on_with_a_file_that_was_rotated_meanwhile(
    stream: Stream, sensors: Sensors, told: Told
) -> None:
    path = sensors(60)
    arguments = (path, "--follow", "--idle", "0.2s", "--predictions", "p")
    assert stream(*arguments).status == 0
    sensors(60, stop=20)
    said = stream(*arguments)
    assert said.status == 0
    assert "reading it from its start" in said.err
    assert len(told("p")) == 80
    assert "80 examples" in said.out
