"""Recorded and compiled steps of a learner are those taken as they come, bit for bit on a CPU.

There, a recording is another call on the same tensors: all but the capture itself is what runs on a
GPU, where `tests/gpu/test_recorded_learner_cuda.py` repeats it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.learner.recorded_pair import Pair, steps_of
from tests.learner.some_stream import batch, engine_of, network, normalised
from torch import Tensor, nn

from recollect import ER, MLP, DERpp, Learner, Method
from recollect.files import unpack
from recollect.methods import METHODS
from recollect.train import recorded

FIT = [
    kind
    for kind in METHODS.values()
    if not (kind.needs.boundaries or kind.needs.task_id or kind.needs.all_data)
]
NETS: dict[str, Callable[[], nn.Module]] = {
    "mlp": lambda: MLP(4, 3, hidden=(6,)), "dense": network, "normalised": normalised,
}  # fmt: skip
OPTIMISERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "momentum, clip": {"momentum": 0.9, "clip": 0.3},
    "AdamW, cosine": {"optimiser": "AdamW", "schedule": "cosine", "schedule_steps": 60},
    "warm-up": {"warmup": 20},
}


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("kind", FIT, ids=lambda kind: kind.name)
def test_every_method_for_streams(
    kind: type[Method], net: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Pair(
        lambda: Learner(NETS[net](), kind(), memory=12, lr=0.05, replay=4, classes=[0, 1, 2]),
        monkeypatch,
    )
    for step in range(13):
        pair.observe(*batch(step))
        pair.assert_same()
        pair.assert_predicts_the_same()
    assert len(steps_of(pair.fast)) == 1
    assert "recorded step" in engine_of(pair.fast).fleet.execution


@pytest.mark.parametrize("name", OPTIMISERS)
def test_optimisers_schedules_and_a_rate_that_is_set(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Pair(
        lambda: Learner(network(), DERpp(), memory=12, replay=4, lr=0.05, **OPTIMISERS[name]),
        monkeypatch,
    )
    for step in range(30):
        if step == 15:
            assert len(steps_of(pair.fast)) == 1
            pair.plain.lr = pair.fast.lr = 0.002
        pair.observe(*batch(step))
        pair.assert_same()


@pytest.mark.parametrize(
    "how",
    [
        {"optimiser": "RMSprop", "optimiser_options": {}},
        {"transform": lambda x: x + torch.rand_like(x)},
    ],
    ids=["torch's optimiser", "a transform"],
)
def test_what_cannot_be_recorded_is_taken_as_it_comes(
    how: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Pair(lambda: Learner(network(), ER(), **how), monkeypatch)
    for step in range(8):
        pair.observe(*batch(step))
    pair.assert_same()
    assert "eager" in engine_of(pair.fast).fleet.execution


def test_a_network_that_draws_random_numbers_is_not_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = Pair(lambda: Learner(nn.Sequential(nn.Dropout(), network()), ER()), monkeypatch)
    for step in range(8):
        pair.observe(*batch(step))
    pair.assert_same()
    assert "eager" in engine_of(pair.fast).fleet.execution


def test_batches_of_many_sizes_and_no_more_recordings_than_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = Pair(lambda: Learner(network(), DERpp(), memory=12, replay=4, lr=0.02), monkeypatch)
    for step, size in enumerate([*range(1, 13)] * 6):
        pair.observe(*batch(step, size))
        if step:
            assert len(steps_of(pair.fast)) <= recorded.MOST
    pair.assert_same()
    assert len(steps_of(pair.fast)) == recorded.MOST


def test_labels_that_arrive_later_give_the_network_more_outputs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = Pair(lambda: Learner(network(), DERpp(), memory=12, replay=4, spare=1), monkeypatch)
    for step in range(30):
        x, y = batch(step)
        pair.observe(x, [label + 3 * (step // 10) for label in y])
        pair.assert_same()
    assert len(pair.fast.classes) == 9
    assert len(steps_of(pair.fast)) == 1


def test_ids_and_examples_that_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair(lambda: Learner(network(), ER(), memory=12, replay=4), monkeypatch)

    def forget(learner: Learner) -> None:
        learner.forget([row.id for row in learner.remembered()][:5])

    for step in range(40):
        x, y = batch(step)
        pair.observe(x, y, ids=[f"{step} {row}" for row in range(len(y))])
        if step in (15, 16, 25):
            pair.each(forget)
            assert engine_of(pair.fast).fleet.clock.holes
        if step == 30:
            pair.each(lambda learner: learner.resize(7))
        pair.assert_same()
    assert len(steps_of(pair.fast)) == 1


@pytest.mark.parametrize("target", ["regression", "labels"])
@pytest.mark.parametrize("weighted", [False, True])
def test_other_targets_and_weights(
    target: str, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = 1 if target == "regression" else 3
    pair = Pair(
        lambda: Learner(network(outputs), DERpp(), memory=12, replay=4, target=target), monkeypatch
    )
    for step in range(30):
        x, y = batch(step)
        values = x.sum(1).tolist() if target == "regression" else [{label} for label in y]
        pair.observe(x, values, weight=np.linspace(0.5, 2, len(y)) if weighted else None)
        pair.assert_same()
    assert len(steps_of(pair.fast)) >= 1


@pytest.mark.parametrize("optimiser", ["SGD", "Adam"])
def test_files_of_one_are_continued_by_the_other(
    optimiser: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file does not tell how steps were taken: each goes on with what the other saved."""
    pair = Pair(
        lambda: Learner(normalised(), DERpp(), memory=12, replay=4, optimiser=optimiser),
        monkeypatch,
    )
    for step in range(12):
        pair.observe(*batch(step))
    pair.plain.save(tmp_path / "plain")
    pair.fast.save(tmp_path / "fast")
    crossed = iter(["fast", "plain"])
    pair.replace(lambda _: Learner.load(tmp_path / next(crossed), normalised()))
    for step in range(12, 24):
        pair.observe(*batch(step))
        pair.assert_same()
    assert len(steps_of(pair.fast)) == 1


def test_checkpoints_in_the_background_while_steps_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = iter([tmp_path / "plain", tmp_path / "fast"])
    pair = Pair(
        lambda: Learner(
            network(), DERpp(), memory=12, replay=4, checkpoints=next(folders), checkpoint_every=1,
            keep=1000,
        ),
        monkeypatch,
    )  # fmt: skip
    states: dict[int, dict[str, Tensor]] = {}
    for step in range(60):
        pair.observe(*batch(step))
        states[pair.plain.seen] = unpack(pair.plain._packed())[1]
    pair.each(lambda learner: learner.close())
    files = list((tmp_path / "fast").glob("*.recollect"))
    assert files  # one that is due while another is written may be left out
    for path in files:
        saved = unpack(path.read_bytes())[1]
        expected = states[int(path.stem)]
        assert saved.keys() == expected.keys()
        assert all(torch.equal(saved[name], expected[name]) for name in expected)
