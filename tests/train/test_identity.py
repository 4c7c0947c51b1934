"""The identity of a run: it changes with all that a result depends on, and with nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any

import pytest
import torch
from tests.train.stopping import convolutional, job_of, photographs

from recollect import ER, MLP, DERpp
from recollect.streams import Stream, TaskStream
from recollect.train import Job, Result, train
from recollect.train.identity import ENVIRONMENT, UNKNOWN, Identity

CHANGES: dict[str, Any] = {
    "benchmark": "other", "stream": "0a", "method": "der", "network": "0b", "code": "0c",
    "hyperparameters": {"lr": 0.2, "bs": 10}, "buffer": 21, "epochs": 2, "validation": True,
    "seed": 1, "precision": "bf16", "optimiser": "adam",
}  # fmt: skip
IDENTITY = Identity("toy", "1", "er", "2", "3", {"lr": 0.1, "bs": 10}, 20, 1, False, 0)


def test_every_part_counts_and_can_be_left_out() -> None:
    assert CHANGES.keys() == {field.name for field in fields(Identity)}
    keys = {IDENTITY.key}
    for name, value in CHANGES.items():
        other = replace(IDENTITY, **{name: value})
        keys.add(other.key)
        assert other.key_without(name) == IDENTITY.key_without(name)
        assert all(other.key_without(n) != IDENTITY.key_without(n) for n in CHANGES if n != name)
    assert len(keys) == len(CHANGES) + 1


def test_order_and_type_of_numbers_do_not_count() -> None:
    same = replace(IDENTITY, hyperparameters={"bs": 10.0, "lr": 0.1})
    assert same.key == IDENTITY.key


def wider(job: Job) -> Job:
    return replace(job, network=partial(MLP, 6, 4, hidden=(9,)))


def other_data(job: Job) -> Job:
    stream: Stream = job.stream
    assert isinstance(stream, TaskStream)
    return replace(job, stream=replace(stream, train_x=stream.train_x + 1))


@pytest.mark.parametrize(("change", "part"), [(wider, "network"), (other_data, "stream")])
def test_results_carry_the_identity_of_their_run(
    change: Callable[[Job], Job], part: str, toy_stream: TaskStream
) -> None:
    job = job_of(toy_stream, ER(), ER())
    results = train(job)
    assert [run.identity for run in results] == list(job.identities)
    assert [run.identity.seed for run in results] == [0, 1]
    assert all(getattr(results[0], name) != UNKNOWN for name in ENVIRONMENT)
    other = change(job).identities[0]
    assert other.key != job.identities[0].key
    assert other.key_without(part) == job.identities[0].key_without(part)


def test_it_is_the_same_after_a_file(toy_stream: TaskStream) -> None:
    (run,) = train(job_of(toy_stream, DERpp(0.3, 0.5)))
    adam = replace(run, optimiser="adam", precision="bf16")
    for each in (run, adam):
        again = Result.from_json(json.loads(json.dumps(each.as_json())))
        assert again == each
        assert again.identity.key == each.identity.key
    assert run.identity.key != adam.identity.key


def test_what_is_planned_is_the_identity_without_its_environment(toy_stream: TaskStream) -> None:
    job = job_of(toy_stream, DERpp(0.3, 0.5), DERpp(0.3, 0.6))
    for planned, known in zip(job.planned, job.identities, strict=True):
        assert planned.key != known.key
        assert planned.key_without(*ENVIRONMENT) == known.key_without(*ENVIRONMENT)


def test_half_precision_is_another_identity_and_a_device_is_not(toy_stream: TaskStream) -> None:
    gpu = torch.device("cuda")
    dense = job_of(toy_stream, ER())
    assert replace(dense, device=gpu).identities == dense.identities
    images = job_of(photographs(), ER(), network=convolutional)
    assert replace(images, device=gpu, half=True).identities[0].precision == "bf16"
    assert replace(images, device=gpu).identities == images.identities


def test_the_execution_of_an_old_result_says_its_precision(toy_stream: TaskStream) -> None:
    (run,) = train(job_of(toy_stream, ER()))
    old = replace(run, precision=UNKNOWN)
    assert old.identity == run.identity
    assert replace(old, execution="loop, CUDA graph, bf16").identity.precision == "bf16"


def test_pieces_of_a_job_have_its_identities(toy_stream: TaskStream) -> None:
    job = job_of(toy_stream, ER(), ER(), ER())
    pieces = job.split(1)
    assert [each for piece in pieces for each in piece.identities] == list(job.identities)
    assert len({job.key, *(piece.key for piece in pieces)}) == 4
