"""Transforms change what is learned and replayed, not what is kept or predicted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.learner.some_stream import batch, network
from torch import Tensor

from recollect import ER, SGD, DERpp, InputError, Learner


class Seen:
    """Adds noise, and notes what it was given and what it gave."""

    def __init__(self, scale: float = 0.1) -> None:
        self.scale = scale
        self.given: list[Tensor] = []
        self.gave: list[Tensor] = []

    def __call__(self, x: Tensor) -> Tensor:
        self.given.append(x.clone())
        self.gave.append(x + self.scale * torch.randn_like(x))
        return self.gave[-1]


def memory_of(learner: Learner) -> Tensor:
    assert learner._now.engine is not None
    return learner._now.engine.fleet.memory.fields().x[0]


def test_what_arrives_and_what_is_replayed_each_have_their_own() -> None:
    now, then = Seen(), Seen(scale=5.0)
    learner = Learner(
        network(), DERpp(), memory=5, replay=3, transform=now, replay_transform=then,
        classes=[0, 1, 2],
    )  # fmt: skip
    for step in range(4):
        learner.observe(*batch(step))
    assert [torch.equal(x, torch.tensor(batch(n)[0])) for n, x in enumerate(now.given)] == [
        True
    ] * 4
    assert [len(x) for x in then.given] == [6, 6, 6], "two draws of three; none while it is empty"
    stored = torch.cat([torch.tensor(batch(step)[0]) for step in range(4)])
    for row in [*memory_of(learner), *then.given[-1]]:
        assert (stored == row).all(1).any(), "the memory holds examples as they came"


def test_the_network_learns_from_the_transformed() -> None:
    plain = Learner(network(), SGD(), lr=0.1, classes=[0, 1, 2])
    doubled = Learner(network(), SGD(), lr=0.1, classes=[0, 1, 2], transform=lambda x: 2 * x)
    for step in range(5):
        x, y = batch(step)
        assert plain.observe(2 * x, y) == doubled.observe(x, y)
    x, _ = batch(9)
    np.testing.assert_array_equal(plain.predict_proba(x), doubled.predict_proba(x))


def test_replays_of_the_transformed_are_learned() -> None:
    """The first batch fills the memory; at the second step all of it is replayed, doubled."""
    losses = []
    for transform in (None, lambda x: 2 * x):
        learner = Learner(network(), ER(), memory=5, replay=5, lr=0.1, replay_transform=transform)
        losses.append([learner.observe(*batch(step)) for step in range(3)])
    assert losses[0][0] == losses[1][0]
    assert losses[0][1] != losses[1][1]


def test_no_transform_in_predictions() -> None:
    now, then = Seen(), Seen()
    learner = Learner(network(), ER(), memory=5, transform=now, replay_transform=then)
    learner.observe(*batch(0))
    counts = len(now.given), len(then.given)
    x, _ = batch(1)
    learner.predict(x)
    learner.predict_proba(x)
    assert (len(now.given), len(then.given)) == counts == (1, 0)


def test_randomness_is_the_seeds_and_other_every_time() -> None:
    gave = []
    for seed in (1, 1, 2):
        torch.manual_seed(int(torch.randint(1000, (1,))))
        now, then = Seen(), Seen()
        learner = Learner(
            network(), ER(), memory=5, replay=5, seed=seed, transform=now, replay_transform=then
        )
        for _ in range(4):
            learner.observe(*batch(0))
        noise = [
            after - before
            for each in (now, then)
            for before, after in zip(each.given, each.gave, strict=True)
        ]
        assert len({tuple(x.flatten().tolist()) for x in noise}) == len(noise) == 7
        gave.append(torch.cat([*now.gave, *then.gave]))
    assert torch.equal(gave[0], gave[1])
    assert not torch.equal(gave[0], gave[2])


def test_the_users_generator_is_left_alone() -> None:
    learner = Learner(network(), ER(), memory=5, transform=Seen(), replay_transform=Seen())
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    for step in range(3):
        learner.observe(*batch(step))
    assert torch.equal(torch.rand(3), expected)


def test_a_continued_stream_is_transformed_as_one_that_never_stopped(tmp_path: Path) -> None:
    def learner() -> Learner:
        return Learner(network(), DERpp(), memory=8, transform=Seen(), replay_transform=Seen())

    whole, parts = learner(), learner()
    for step in range(10):
        whole.observe(*batch(step))
        parts.observe(*batch(step))
        parts.save(tmp_path / "learner")
        parts = Learner.load(
            tmp_path / "learner", network(), transform=Seen(), replay_transform=Seen()
        )
    assert parts._packed() == whole._packed()


def test_bytes_arrive_at_a_transform_as_numbers() -> None:
    seen = Seen(scale=0)
    learner = Learner(network(), ER(), memory=5, transform=seen, replay_transform=seen)
    for _ in range(2):
        learner.observe(np.array([[0, 51, 102, 255]], dtype=np.uint8), [0])
    for x in seen.given:
        torch.testing.assert_close(x, torch.tensor([[0, 0.2, 0.4, 1]]))
    assert memory_of(learner).dtype == torch.uint8


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda x: x[:1], r"the shape that it received, \[5, 4\], not \[1, 4\]"),
        (lambda x: None, r"the shape that it received, \[5, 4\], not NoneType"),
        (lambda x: x[:, :2], r"the shape that it received, \[5, 4\], not \[5, 2\]"),
        (lambda x: x @ torch.ones(9, 9), "a transform failed on these examples"),
        (lambda x: x.numpy(), r"the shape that it received, \[5, 4\], not ndarray"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("where", ["transform", "replay_transform"])
def test_a_transform_that_goes_wrong_changes_nothing(wrong: object, said: str, where: str) -> None:
    calls = 0

    def late(x: Tensor) -> object:
        nonlocal calls
        calls += 1
        return x if calls < 2 else wrong(x)  # type: ignore[operator]

    given: dict[str, Any] = {where: late}
    learner = Learner(
        network(), ER(), memory=5, replay=5, optimiser="Adam", classes=[0, 1, 2], **given
    )
    for step in range(2 if where == "replay_transform" else 1):
        learner.observe(*batch(step))
    before = learner._packed()
    with pytest.raises(InputError, match=said):
        learner.observe(*batch(5))
    assert learner._packed() == before
