"""The loop over a stream: what is learned, when it is measured, and what a result says."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np
import pytest
import torch
from tests.train.stopping import job_of, mlp
from torch import Tensor

from recollect import DER, ER, SGD, DERpp, Fleet, InputError, Joint, Needs
from recollect.streams import Stream, TaskStream, from_arrays
from recollect.train import Run, train
from recollect.train.evaluate import accuracy


@dataclass
class Altered:
    """A stream that differs from another in a few attributes."""

    inner: Stream
    changes: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        return self.changes.get(name) or getattr(self.inner, name)


@pytest.mark.parametrize("epochs", [1, 3])
def test_training_is_learning_each_task_and_measuring_after_it(
    toy_stream: TaskStream, epochs: int
) -> None:
    job = job_of(toy_stream, DERpp(0.3, 0.5), DERpp(0.6, 0.1), epochs=epochs)
    results = train(job)
    fleet = Fleet(
        [run.method for run in job.runs], mlp, seeds=[0, 1], lr=[0.05, 0.1], classes=4, shape=(6,),
        memory=12, replay=5,
    )  # fmt: skip
    measured = [accuracy(fleet, toy_stream, range(2))]
    for task in range(2):
        for epoch in range(epochs):
            index = toy_stream.order(fleet.seeds, task, epoch, 0, 35)
            fleet.learn(*toy_stream.pick(fleet.seeds, task, index), 10)
        measured.append(accuracy(fleet, toy_stream, range(2)))
    for run, result in enumerate(results):
        assert result.untrained is not None
        for setting in ("class", "task"):
            before, *after = (m[setting][run].tolist() for m in measured)
            assert result.untrained[setting] == before
            assert result.matrix[setting] == after
            assert result.accuracy[setting] == pytest.approx(sum(after[-1]) / 2)
            assert result.fwt[setting] == pytest.approx(after[0][1] - before[1])
            assert result.bwt[setting] == pytest.approx(after[1][0] - after[0][0])
            assert result.forgetting[setting] == pytest.approx(max(after[0][0] - after[1][0], 0))
        assert result.steps == job.steps == fleet.steps == 8 * epochs
        assert result.memory_bytes == 12 * (6 * 4 + 8 + 4 * 4)
        assert not result.diverged


def test_a_result_says_what_the_run_was(toy_stream: TaskStream) -> None:
    first, second = train(job_of(toy_stream, DER(0.3), DER(0.7)))
    assert (first.benchmark, first.method, first.buffer, first.seed) == ("toy", "der", 12, 0)
    assert second.hyperparameters == {"lr": 0.1, "alpha": 0.7, "bs": 10, "mbs": 5}
    assert json.loads(json.dumps(second.as_json()))["matrix"] == second.matrix
    (without,) = train(job_of(toy_stream, SGD()))
    assert (without.buffer, without.memory_bytes) == (None, 0)
    assert without.hyperparameters == {"lr": 0.05, "bs": 10}


def test_something_is_learned_and_replay_remembers_it(toy_stream: TaskStream) -> None:
    (forgetful,) = train(job_of(toy_stream, SGD(), epochs=10, runs=(Run(0, 0.5, SGD()),)))
    replay = {"buffer": 60, "replay": 10, "runs": (Run(0, 0.5, ER()),)}
    (replaying,) = train(job_of(toy_stream, ER(), epochs=10, **replay))
    assert replaying.accuracy["class"] > forgetful.accuracy["class"] + 10
    assert replaying.accuracy["task"] > 80


def test_tasks_far_ahead_are_not_measured() -> None:
    x, y = np.random.default_rng(0).random((60, 6)), np.arange(60) % 4
    (result,) = train(job_of(from_arrays(x, y, tasks=4), SGD()))
    known = [[value is not None for value in row] for row in result.matrix["class"]]
    assert known == [[True, True, False, False], [True, True, True, False], [True] * 4, [True] * 4]


def test_a_run_is_scored_the_same_in_any_fleet(toy_stream: TaskStream) -> None:
    whole = job_of(toy_stream, *(DERpp(0.1 * k, 0.5) for k in range(4)))
    together = train(whole)
    for k in range(4):
        (alone,) = train(replace(whole, runs=whole.runs[k : k + 1]))
        assert alone.matrix == together[k].matrix
        assert alone.hyperparameters == together[k].hyperparameters


def test_joint_training_mixes_all_tasks_and_has_no_transfer(toy_stream: TaskStream) -> None:
    job = job_of(toy_stream, Joint(), epochs=10, batch=20, runs=(Run(0, 0.5, Joint()),))
    (result,) = train(job)
    assert result.steps == job.steps == 40  # four for 70 examples
    assert len(result.matrix["class"]) == 1
    assert None not in result.matrix["class"][0]
    assert result.untrained is None
    assert result.fwt == result.bwt == result.forgetting == {"class": None, "task": None}
    (forgetful,) = train(job_of(toy_stream, SGD(), epochs=10, runs=(Run(0, 0.5, SGD()),)))
    assert result.accuracy["class"] > forgetful.accuracy["class"] + 10


def test_a_stream_without_tasks_has_only_an_accuracy() -> None:
    x, y = np.random.default_rng(0).random((60, 6)), np.arange(60) % 4
    (result,) = train(job_of(from_arrays(x, y, scenario="arrival"), ER()))
    assert list(result.accuracy) == ["general"]
    assert result.fwt == {"general": None}


def test_no_batch_spans_two_parts_of_a_task(toy_stream: TaskStream) -> None:
    """Parts of 12 and 23 examples are batches of 10 + 2 and 10 + 10 + 3."""
    stream = cast(Stream, Altered(toy_stream, {"parts": lambda task: (12, 23)}))
    sizes: list[int] = []

    class Watching(SGD):
        def loss(self, step: Any) -> Tensor:
            sizes.append(step.x.shape[1])
            return super().loss(step)

    job = job_of(stream, Watching())
    (result,) = train(job)
    assert sizes == [10, 2, 10, 10, 3] * 2
    assert result.steps == job.steps == 10


def test_a_long_task_arrives_in_stretches_of_whole_batches(
    toy_stream: TaskStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    (whole,) = train(job_of(toy_stream, DERpp(), batch=4))
    reported: list[int] = []
    monkeypatch.setattr("recollect.train.source.STRETCH", 11)
    (cut,) = train(job_of(toy_stream, DERpp(), batch=4), reported.append)
    assert cut.matrix == whole.matrix
    assert reported == [2, 2, 2, 2, 1] * 2
    assert sum(reported) == cut.steps


def test_a_run_that_diverges_says_so(toy_stream: TaskStream) -> None:
    job = job_of(toy_stream, SGD(), SGD(), epochs=5)
    wild = replace(job.runs[1], lr=1e30)
    calm_result, wild_result = train(replace(job, runs=(job.runs[0], wild)))
    assert (calm_result.diverged, wild_result.diverged) == (False, True)


def test_a_method_that_needs_boundaries_is_refused_without_them() -> None:
    @dataclass(frozen=True)
    class Consolidating(SGD):
        title: ClassVar[str] = "EWC"
        needs: ClassVar[Needs] = Needs(boundaries=True)

    x, y = np.random.default_rng(0).random((20, 6)), np.arange(20) % 4
    stream = from_arrays(x, y, scenario="arrival", name="mine")
    with pytest.raises(InputError, match="EWC needs task boundaries, which mine does not have"):
        train(job_of(stream, Consolidating()))


@pytest.mark.parametrize(
    ("runs", "most", "sizes"), [(7, 3, [3, 2, 2]), (4, 4, [4]), (3, 1, [1] * 3)]
)
def test_a_job_splits_evenly_and_in_order(
    runs: int, most: int, sizes: list[int], toy_stream: TaskStream
) -> None:
    job = job_of(toy_stream, *(SGD() for _ in range(runs)))
    pieces = job.split(most)
    assert [len(piece.runs) for piece in pieces] == sizes
    assert sum((piece.runs for piece in pieces), ()) == job.runs


def test_training_leaves_torchs_generator_alone(toy_stream: TaskStream) -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    train(job_of(toy_stream, DERpp()))
    assert torch.equal(torch.rand(2), expected)
