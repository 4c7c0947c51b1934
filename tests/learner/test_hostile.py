"""Networks, labels, transforms and folders that once broke a learner's promises."""

from __future__ import annotations

import math
from collections.abc import Hashable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from recollect import ER, MLP, DataError, DERpp, DivergedError, InputError, Learner

X = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
Y = [0, 1, 0, 1, 0, 1]


class Masked(nn.Module):
    """Holds infinities on purpose, as causal attention does."""

    mask: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 2)
        self.register_buffer("mask", torch.full((3, 3), float("-inf")).triu(1))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(x)
        return logits


class Images(nn.Module):
    """Takes its input apart in Python, which is how many networks refuse a wrong shape."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        _, _, height, _ = x.shape
        logits: Tensor = self.head(x[..., :height])
        return logits


class Tokens(nn.Module):
    """Knows ten tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(10, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.embedding(x).mean(1))
        return logits


def test_a_network_may_hold_infinities() -> None:
    learner = Learner(Masked(), ER(), memory=10)
    learner.observe(X, Y)
    assert learner.steps == 1
    assert bool(torch.isinf(learner.trained_module().mask).any())  # type: ignore[arg-type]


def test_many_halves_do_not_overflow_together() -> None:
    network = nn.Linear(600, 200).half()
    nn.init.ones_(network.weight)
    learner = Learner(network, ER(), memory=10)
    learner.observe(np.zeros((2, 600), np.float16), [0, 1])
    assert learner.steps == 1


def test_an_optimiser_whose_past_overflows_has_diverged() -> None:
    """The weights stay finite, but would never move again."""
    learner = Learner(nn.Linear(4, 2), ER(), memory=10, optimiser="Adam", lr=1e-3, clip=math.inf)
    learner.observe(X, Y)
    before = learner._packed()
    with pytest.raises(DivergedError):
        learner.observe(X * 1e25, Y, on_outlier="learn")
    assert learner._packed() == before


def test_a_shape_that_the_network_takes_apart_is_an_input_error() -> None:
    with pytest.raises(InputError, match=r"does not accept examples of shape \[4\]: not enough"):
        Learner(Images(), ER()).observe(X, Y)


def test_tokens_that_the_network_does_not_know() -> None:
    learner = Learner(Tokens(), ER(), memory=10)
    learner.observe(np.zeros((2, 3), np.int64), [0, 1])
    before = learner._packed()
    for look in (lambda x: learner.observe(x, [0, 1]), learner.predict):
        with pytest.raises(InputError, match="out of range"):
            look(np.full((2, 3), 99))
    assert learner._packed() == before


def test_a_network_without_weights_is_refused() -> None:
    with pytest.raises(InputError, match="no parameters to train"):
        Learner(nn.Flatten(), ER())


@pytest.mark.parametrize(
    "label", [float("inf"), -float("inf"), 2**5000, -(2**5000), "\ud800", None, 0.5], ids=range(7)
)
def test_every_listed_class_can_be_saved(label: Hashable, tmp_path: Path) -> None:
    """Those that would be refused if they arrived are allowed in a list, and in files of before."""
    learner = Learner(
        MLP(4, 2), ER(), memory=10, checkpoints=tmp_path, checkpoint_every=1,
        classes=[label, "other"],
    )  # fmt: skip
    learner.observe(X[:2], [label, "other"])
    learner.close()
    again = Learner.resume(tmp_path, MLP(4, 2))
    assert again is not None
    assert again.classes == [label, "other"]
    again.observe(X[:2], [label, "other"])


def test_a_label_with_a_nan_inside_would_be_new_every_time() -> None:
    with pytest.raises(InputError, match="cannot be a label"):
        Learner(MLP(4, 1), ER()).observe(X[0], (float("nan"), 1))


def test_a_transform_that_works_in_place_changes_nothing_that_is_kept() -> None:
    x = X.copy()
    learner = Learner(MLP(4, 1), ER(), memory=10, transform=lambda x: x.mul_(0))
    learner.observe(x, Y)
    assert np.array_equal(x, X)
    engine = learner._now.engine
    assert engine is not None
    assert torch.equal(engine.fleet.memory.fields().x[0, :6], torch.from_numpy(X))


def test_growing_leaves_the_generator_of_torch_alone() -> None:
    learner = Learner(nn.Linear(4, 1), DERpp(), memory=10)
    learner.observe(X, [0] * 6)
    before = torch.random.get_rng_state()
    learner.observe(X, list(range(6)))
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize(
    "other",
    [
        nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2)),
        nn.Sequential(nn.Linear(4, 1), nn.Linear(1, 2)).double(),
    ],
    ids=["wider", "double"],
)
def test_a_saved_weight_is_not_stretched_to_another_shape_or_type(
    other: nn.Module, tmp_path: Path
) -> None:
    learner = Learner(nn.Sequential(nn.Linear(4, 1), nn.Linear(1, 2)), ER(), memory=10)
    learner.observe(X, Y)
    learner.save(tmp_path / "a")
    with pytest.raises(InputError, match="another network"):
        Learner.load(tmp_path / "a", other)


def test_a_folder_with_the_checkpoints_of_another_learner_is_refused(tmp_path: Path) -> None:
    old = Learner(MLP(4, 1), ER(), memory=10, checkpoints=tmp_path, checkpoint_every=1)
    for _ in range(5):
        old.observe(X, Y)
    old.close()
    young = Learner(MLP(4, 1), ER(), memory=10, checkpoints=tmp_path, keep=1)
    young.observe(X[:2], Y[:2])
    with pytest.raises(InputError, match="another learner"):
        young.checkpoint()


def test_a_step_whose_checkpoint_fails_is_no_input_error(tmp_path: Path) -> None:
    """An `InputError` says that nothing was changed."""
    learner = Learner(MLP(4, 1), ER(), memory=10, checkpoints=tmp_path, checkpoint_every=1)
    learner.observe(X, Y)
    learner.flush()
    learner.notes["no"] = []
    learner.notes["no"].append(object())
    with pytest.raises(DataError, match="learned, but not saved"):
        learner.observe(X, Y)
    assert (learner.seen, learner.saved) == (12, 6)
