"""`recollect stream --labels`: labels in a second file, matched by id."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from torch import nn

from recollect import MLP, DERpp, InputError, Learner, LiveStream
from recollect.cli.main import main
from recollect.feeds import Reading, open_feed, open_labels
from recollect.live.joined import LateLabels
from recollect.live.state import Predictions
from recollect.nets import Standardise

Stream = Callable[..., Any]
Told = Callable[[str | Path], list[dict[str, Any]]]

JOIN = ("--id", "request", "--labels", "labels.csv")
OUT = ("--predictions", "p.jsonl")


class Killed(BaseException):
    """The process is gone: nothing may be tidied up."""


def untidy(rows: list[str]) -> list[str]:
    """Labels far out of order, of which some are missing, twice there, or for nothing."""
    rng = random.Random(3)
    kept = [row for row in rows if rng.random() < 0.7]
    kept += rng.sample(kept, len(kept) // 10)
    kept += [f"other{n},hot\n" for n in range(len(rows) // 10)]
    placed = [(n + rng.uniform(-40, 40), row) for n, row in enumerate(kept)]
    return [row for _, row in sorted(placed)]


def state(folder: str) -> dict[str, Any]:
    """All tensors and facts of the newest checkpoint."""
    newest = max(Path(folder).glob("*.recollect"))
    facts = newest.read_bytes().split(b"}}", 1)[0]
    return {"facts": facts} | {name: t.tolist() for name, t in load_file(newest).items()}


def test_two_files_give_what_one_file_with_labels_gives(
    stream: Stream, files: Any, drifting: Any, told: Told
) -> None:
    rows, _ = files(200)
    whole = [f"{row.rstrip()},{y}\n" for row, y in zip(rows, drifting(200)[1], strict=True)]
    Path("whole.csv").write_text("".join(["request,a,b,c,kind\n", *whole]), "utf-8")
    one = stream(
        "whole.csv", "--id", "request", "--checkpoint", "one", "--predictions", "one.jsonl"
    )
    two = stream("requests.csv", *JOIN, *OUT, "--checkpoint", "two")
    assert (one.status, two.status) == (0, 0)
    assert one.out == two.out
    assert "labels by id: 200 learned; 0 examples still wait for a label" in two.err
    assert "learning from 3 numbers (a, b, c)" in two.err
    both = zip(told("one.jsonl"), told("p.jsonl"), strict=True)
    assert all({**a, "label": None} == b for a, b in both)
    weights = (state(folder) for folder in ("one", "two"))
    first, second = ({n: t for n, t in s.items() if n.startswith("engine")} for s in weights)
    assert first == second


def test_labels_that_are_missing_repeated_unknown_or_out_of_order(
    stream: Stream, files: Any
) -> None:
    _, labels = files(300, untidy)
    different = {row for row in labels if row.startswith("r")}
    said = stream("requests.csv", *JOIN)
    again = len(labels) - 30 - len(different)
    assert said.status == 0
    assert f"labels by id: {len(different)} learned, {again} repeated; " in said.err
    assert f"{300 - len(different)} examples still wait for a label, 30 labels for" in said.err
    assert f"{len(different)} examples" in said.out


def test_what_waits_is_bounded(stream: Stream, files: Any) -> None:
    files(300, lambda rows: rows[250:] + rows[:250])
    said = stream("requests.csv", *JOIN, "--pending", 20)
    assert said.status == 0
    learned, *others = said.err.split("labels by id: ")[1].split(";")[0].split(", ")
    counts = {what: int(n) for n, what in (each.split() for each in [learned, *others])}
    waiting = int(said.err.split("; ")[-1].split()[0])
    assert waiting <= 20
    assert counts["expired"] > 100
    _, _, after = said.err.partition("for a label, ")
    early = int(after.split()[0]) if after else 0
    assert sum(counts.values()) + early == 300


@pytest.mark.parametrize("change", [lambda rows: rows, untidy])
def test_every_kill_leads_to_the_same_end(
    change: Any, stream: Stream, files: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(300, change)
    words = ("requests.csv", *JOIN, *OUT, "--pending", 50)
    assert stream(*words, "--checkpoint", "whole").status == 0
    whole = Path("p.jsonl").read_bytes()
    Path("p.jsonl").unlink()
    rng, left = random.Random(0), [0]
    write, learn = Predictions.write, LateLabels.learn

    def at_last(half: Callable[[], None]) -> None:
        left[0] -= 1
        if left[0] == 0:
            half()
            raise Killed

    def writing(self: Predictions, lines: Any) -> None:
        at_last(lambda: write(self, lines[: len(lines) // 2]))
        write(self, lines)

    def learning(self: LateLabels, batch: Any, observe: Any) -> None:
        at_last(lambda: learn(self, batch, observe))
        learn(self, batch, observe)

    monkeypatch.setattr(Predictions, "write", writing)
    monkeypatch.setattr(LateLabels, "learn", learning)
    for batches in [1, 2, 3, 4, *(rng.randint(1, 8) for _ in range(8))]:
        left[0] = batches
        with pytest.raises(Killed):
            stream(*words, "--checkpoint", "parts", "--every", 3)
    left[0] = 1000
    assert stream(*words, "--checkpoint", "parts", "--every", 3).status == 0
    assert Path("p.jsonl").read_bytes() == whole
    assert state("parts") == state("whole")


@pytest.mark.parametrize("which", [4, 5])
def test_a_signal_saves_and_the_same_command_continues(
    which: int, stream: Stream, files: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(200, untidy)
    words = ("requests.csv", *JOIN, *OUT)
    stream(*words, "--checkpoint", "whole")
    whole = Path("p.jsonl").read_bytes()
    Path("p.jsonl").unlink()
    real, taken = LiveStream._take, [0]

    def take(self: LiveStream, batch: Any) -> None:
        taken[0] += 1
        if taken[0] == which:
            signal.raise_signal(signal.SIGTERM)
        real(self, batch)

    monkeypatch.setattr(LiveStream, "_take", take)
    assert stream(*words, "--checkpoint", "parts").status == 143
    assert len(Path("p.jsonl").read_bytes().splitlines()) == 10 * which
    assert stream(*words, "--checkpoint", "parts").status == 0
    assert Path("p.jsonl").read_bytes() == whole
    assert state("parts") == state("whole")


def test_labels_may_come_through_a_pipe(
    stream: Stream, files: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(40)
    words = ("requests.csv", "--id", "request", "--labels", "-")
    with Path("labels.csv").open() as source:
        monkeypatch.setattr(sys, "stdin", source)
        said = stream(*words)
    assert said.status == 0
    assert "40 learned; 0 examples still wait" in said.err
    Path("no.csv").write_text("")
    with Path("no.csv").open() as source:
        monkeypatch.setattr(sys, "stdin", source)
        assert "the same source is given twice" in stream("-", *words[1:]).err


def test_labels_may_be_parquet(stream: Stream, files: Any) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    _, labels = files(40)
    ids, kinds = zip(*(row.strip().split(",") for row in labels), strict=True)
    table = {"request": [*ids], "site": ["north"] * 40, "kind": [*kinds]}
    parquet.write_table(pyarrow.table(table), "labels.parquet")
    said = stream("requests.csv", "--id", "request", "--labels", "labels.parquet")
    assert "40 learned; 0 examples still wait" in said.err
    requests = {"request": [*ids], "a": [float(n) for n in range(40)]}
    parquet.write_table(pyarrow.table(requests), "requests.parquet")
    said = stream("requests.parquet", *JOIN)
    assert "learning from 1 number (a)" in said.err
    assert "40 learned; 0 examples still wait" in said.err


def in_a_child(words: list[str]) -> None:
    with Path(os.devnull).open("w") as nowhere:
        sys.stdout = sys.stderr = nowhere
        os._exit(main(words))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_killed_process_loses_nothing(stream: Stream, files: Any) -> None:
    files(600, untidy)
    words = ["requests.csv", *JOIN, *OUT, "--pending", "100", "--hidden", "16"]
    assert stream(*words, "--checkpoint", "whole").status == 0
    whole = Path("p.jsonl").read_bytes()
    Path("p.jsonl").unlink()
    words += ["--checkpoint", "parts", "--every", "2"]
    rng, ends = random.Random(1), []
    for _ in range(6):
        child = multiprocessing.get_context("fork").Process(
            target=in_a_child, args=(["stream", *words],)
        )
        child.start()
        time.sleep(rng.uniform(0.05, 0.4))
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        ends.append(child.exitcode)
    assert -signal.SIGKILL in ends, "not one was killed before its end"
    assert stream(*words).status == 0
    assert Path("p.jsonl").read_bytes() == whole
    assert state("parts") == state("whole")


def test_files_that_have_grown_are_joined_with_what_waits(stream: Stream, files: Any) -> None:
    rows, labels = files(100)
    Path("requests.csv").write_text("".join(["request,a,b,c\n", *rows[:60]]))
    Path("labels.csv").write_text("".join(["request,kind\n", *labels[:30], *labels[90:]]))
    said = stream("requests.csv", *JOIN)
    assert "30 learned; 30 examples still wait for a label, 10 labels for an example" in said.err
    Path("requests.csv").write_text("".join(["request,a,b,c\n", *rows]))
    said = stream("requests.csv", *JOIN)
    assert "40 learned; 60 examples still wait for a label" in said.err
    with Path("labels.csv").open("a") as file:
        file.write("".join(labels[30:90]))
    said = stream("requests.csv", *JOIN)
    assert "100 learned; 0 examples still wait for a label" in said.err
    assert "100 examples" in said.out


def test_both_files_are_followed(stream: Stream, files: Any) -> None:
    rows, labels = files(60)
    Path("requests.csv").write_text("".join(["request,a,b,c\n", *rows[:20]]))
    Path("labels.csv").write_text("")

    def grow() -> None:
        for name, some in (
            ("labels.csv", ["request,kind\n", *labels[:5]]), ("labels.csv", labels[5:40]),
            ("requests.csv", rows[20:]), ("labels.csv", labels[40:]),
        ):  # fmt: skip
            time.sleep(0.6)
            with Path(name).open("a") as file:
                file.write("".join(some))

    writer = threading.Thread(target=grow)
    writer.start()
    said = stream("requests.csv", *JOIN, "--follow", "--idle", "2s")
    writer.join()
    assert said.status == 0
    assert "60 learned; 0 examples still wait" in said.err
    assert "60 examples" in said.out


def test_the_learner_knows_the_ids(files: Any, drifting: Any) -> None:
    files(60, untidy)
    requests = Reading(id="request", labelled=False)
    feed, labels = open_feed("requests.csv", requests), open_labels("labels.csv", requests)
    network = nn.Sequential(Standardise(3), MLP(3, 1))
    live = LiveStream(Learner(network, DERpp(), memory=20), feed, "state", labels=labels)
    learner = live.run()
    assert learner is not None
    assert live.late is not None
    assert live.late.learned == learner.seen
    kinds = {f"r{n}": kind for n, kind in enumerate(drifting(60)[1])}
    stored = learner.remembered()
    assert len(stored) == 20
    assert all(kinds[str(row.id)] == row.label for row in stored)


def test_labels_alone_are_no_stream(files: Any) -> None:
    files(20)
    requests = Reading(id="request", labelled=False)
    feed, labels = open_feed("requests.csv", requests), open_labels("labels.csv", requests)
    with pytest.raises(InputError, match="open it with open_labels"):
        LiveStream(Learner(MLP(3, 1), DERpp()), feed, "state", labels=feed)
    with pytest.raises(InputError, match=r"open the examples with Reading\(id"):
        LiveStream(Learner(MLP(3, 1), DERpp()), labels, "state", labels=labels)
    with pytest.raises(InputError, match="as in Reading"):
        open_labels("labels.csv", Reading())
