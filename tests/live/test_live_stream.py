"""`LiveStream` from Python: prequential, saved, and resumed exactly."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from recollect import ER, MLP, DERpp, InputError, Learner, LiveStream
from recollect.feeds import Reading, open_feed

PASSES: list[str] = []


class Counted(nn.Module):
    """A network that notes every forward pass of examples, and whether it is for training."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(2, 1)

    def forward(self, x: Tensor) -> Tensor:
        # A learner first tries the network on two copies of an example.
        if not (len(x) == 2 and torch.equal(x[0], x[1])):
            PASSES.append("training" if self.training else "evaluation")
        logits: Tensor = self.head(x)
        return logits


@pytest.fixture
def rows(tmp_path: Path) -> Callable[..., Path]:
    """A file of rows of two numbers and a label; of some, the label is not known."""

    def write(count: int, *, unknown: int = 0) -> Path:
        rng = np.random.default_rng(0)
        lines = []
        for number in range(count):
            kind = number * 2 // 60 % 2
            a, b = rng.normal(size=2) + 3 * kind
            label = "" if unknown and number % unknown == 0 else "ab"[kind]
            lines.append(f"{a:.4f},{b:.4f},{label}\n")
        path = tmp_path / "rows.csv"
        path.write_text("".join(lines))
        return path

    return write


def made(x: np.ndarray) -> Learner:
    torch.manual_seed(0)
    return Learner(MLP(x.size, 1, [8]), DERpp(), memory=30, lr=0.1)


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def weights(learner: Learner | None) -> list[Any]:
    assert learner is not None
    return [weight.tolist() for weight in learner.trained_module().parameters()]


@pytest.mark.parametrize("unknown", [0, 7])
def test_a_prediction_costs_no_second_forward_pass(
    rows: Callable[..., Path], tmp_path: Path, unknown: int
) -> None:
    counts: list[tuple[int, int]] = []
    metrics = []
    for predictions in (None, tmp_path / "predictions.jsonl"):
        PASSES.clear()
        torch.manual_seed(0)
        learner = Learner(Counted(), ER(), memory=20, classes=["a", "b"])
        live = LiveStream(
            learner, open_feed(rows(80, unknown=unknown)), tmp_path / f"{len(counts)}",
            predictions=predictions,
        )  # fmt: skip
        assert live.run() is learner
        counts.append((PASSES.count("training"), PASSES.count("evaluation")))
        metrics.append(learner.metrics())
    assert counts[0] == counts[1]
    assert counts[0][1] == 7, "one for every batch but the first"
    assert metrics[0] == metrics[1]
    lines = [line for line in lines_of(tmp_path / "predictions.jsonl") if line["label"]]
    assert np.mean([line["label"] == line["predicted"] for line in lines]) == metrics[0].accuracy


def test_a_stopped_stream_ends_as_if_it_had_not_been(
    rows: Callable[..., Path], tmp_path: Path
) -> None:
    whole = LiveStream(made, open_feed(rows(100)), tmp_path / "whole", predictions=tmp_path / "p")
    expected = weights(whole.run())
    reports: list[tuple[int, int]] = []

    def report(live: LiveStream) -> None:
        reports.append((live.count, live.new))
        if live.new == 30:
            live.stop()

    said: list[str] = []
    for _ in range(4):
        live = LiveStream(
            made, open_feed(rows(100)), tmp_path / "parts", predictions=tmp_path / "q",
            say=said.append,
        )  # fmt: skip
        learner = live.run(report)
        assert live.learner is learner
    assert reports == [(n, (n - 1) % 30 + 1) for n in range(10, 101, 10)]
    assert said[:3] == [
        "learning '3' from 2 numbers (1, 2)",
        "continuing after 30 examples (fresh=True starts over)",
        "learning '3' from 2 numbers (1, 2)",
    ]
    assert weights(learner) == expected
    assert (tmp_path / "q").read_bytes() == (tmp_path / "p").read_bytes()


def test_one_object_runs_again_where_it_stopped(rows: Callable[..., Path], tmp_path: Path) -> None:
    live = LiveStream(made, open_feed(rows(40)), tmp_path / "state")
    assert live.run() is not None
    rows(70)
    learner = live.run()
    assert learner is not None
    assert (live.count, live.new, learner.seen) == (70, 30, 70)
    again = LiveStream(made, open_feed(rows(70)), tmp_path / "other")
    assert weights(again.run()) == weights(learner)


def test_another_thread_stops_a_feed_that_waits(rows: Callable[..., Path], tmp_path: Path) -> None:
    live = LiveStream(made, open_feed(rows(25), Reading(follow=True)), tmp_path / "state")
    threading.Timer(1.0, live.stop).start()
    learner = live.run()
    assert learner is not None
    assert learner.seen == 25, "a batch that is not full is not held back"
    assert live.stopped


def test_predictions_go_to_an_open_stream(rows: Callable[..., Path], tmp_path: Path) -> None:
    output = io.BytesIO()
    LiveStream(made, open_feed(rows(30)), tmp_path / "state", predictions=output).run()
    lines = [json.loads(line) for line in output.getvalue().splitlines()]
    assert [line["n"] for line in lines] == [*range(1, 31)]


def test_nothing_that_arrives_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").touch()
    live = LiveStream(made, open_feed(tmp_path / "empty.csv"), tmp_path / "state")
    assert live.run() is None
    assert [path.name for path in tmp_path.iterdir()] == ["empty.csv"]


def test_a_state_is_continued_by_the_same_learner_and_settings_alone(
    rows: Callable[..., Path], tmp_path: Path
) -> None:
    def run(lr: float = 0.1, **changed: Any) -> None:
        learner = Learner(MLP(2, 1, [8]), DERpp(), memory=30, lr=lr)
        LiveStream(learner, open_feed(rows(30)), tmp_path / "state", **changed).run()

    run(settings={"site": "north"})
    run(settings={"site": "north"})
    with pytest.raises(InputError, match=r"was created with lr=0\.1, not lr=0\.2"):
        run(lr=0.2)
    with pytest.raises(InputError, match="was saved with batch=10, not with batch=5: fresh=True"):
        run(batch=5)
    with pytest.raises(InputError, match="saved with site='north', not with site='south'"):
        run(settings={"site": "south"})
    run(lr=0.2, fresh=True)


def test_what_cannot_be_is_refused_before_anything_is_read(
    rows: Callable[..., Path], tmp_path: Path
) -> None:
    feed, here = open_feed(rows(30)), tmp_path / "state"
    with pytest.raises(InputError, match="batch must be at least 1"):
        LiveStream(made, feed, here, batch=0)
    with pytest.raises(InputError, match="is a file"):
        LiveStream(made, feed, tmp_path / "rows.csv")
    with pytest.raises(InputError, match="would overwrite the source"):
        LiveStream(made, feed, here, predictions=tmp_path / "rows.csv")
    assert not here.exists()
