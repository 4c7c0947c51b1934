"""Gradients of learners are clipped by default, to a norm that depends on the target."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.learner.some_stream import batch, engine_of, network

from recollect import ER, MLP, DERpp, InputError, Learner
from recollect.learner.targets.answers import DEFAULT_NUMBERS
from recollect.methods import NCM

TARGETS: dict[str, list[Any]] = {
    "class": ["a", "b"], "regression": [1.0, 2.0], "labels": [["a"], ["b", "c"]],
}  # fmt: skip
EXAMPLES = np.ones((2, 4))


def clips(learner: Learner) -> dict[str, float]:
    return dict(learner._settings.optimising.numbers)


@pytest.mark.parametrize("target", TARGETS)
def test_one_step_moves_the_weights_by_at_most_lr_times_clip(target: str) -> None:
    """Before it was the default, one example of size 1e6 moved them by more than the others."""
    moved = {}
    for name, how in {"default": {}, "none": {"clip": math.inf}}.items():
        torch.manual_seed(0)
        options: Any = {"target": target, "on_outlier": "learn", **how}
        learner = Learner(MLP(4, 1).double(), ER(), memory=10, lr=1e-5, **options)
        learner.observe(EXAMPLES, TARGETS[target])
        before = [weight.clone() for weight in engine_of(learner).fleet.weights]
        learner.observe(1e6 * EXAMPLES, TARGETS[target])
        after = engine_of(learner).fleet.weights
        steps = [(b - a).square().sum() for a, b in zip(before, after, strict=True)]
        moved[name] = float(torch.stack(steps).sum().sqrt())
    most = 1e-5 * DEFAULT_NUMBERS[target]["clip"]
    assert moved["default"] == pytest.approx(most, rel=1e-3)
    assert moved["none"] > 100 * most


def test_small_gradients_are_not_changed_at_all() -> None:
    learners = [Learner(network(), DERpp(), memory=20, **how) for how in ({}, {"clip": 1e6})]  # type: ignore[arg-type]
    for step in range(20):
        losses = {learner.observe(*batch(step)) for learner in learners}
        assert len(losses) == 1


@pytest.mark.parametrize("target", TARGETS)
def test_no_clipping_is_saved_as_such(target: str, tmp_path: Path) -> None:
    """It was clipped at the default of the target after loading."""
    for how in ({}, {"clip": 3.0}, {"clip": math.inf}):
        learner = Learner(MLP(4, 1), ER(), memory=10, target=target, **how)  # type: ignore[arg-type]
        learner.observe(EXAMPLES, TARGETS[target])
        learner.save(tmp_path / "saved")
        loaded = Learner.load(tmp_path / "saved", MLP(4, 1))
        assert clips(loaded) == clips(learner)
        assert clips(loaded).get("clip", math.inf) == how.get("clip", clips(Learner(
            MLP(4, 1), ER(), target=target))["clip"])  # fmt: skip


def test_a_folder_from_before_the_default_is_resumed_as_it_is(tmp_path: Path) -> None:
    with Learner(network(), ER(), memory=10, clip=math.inf, checkpoints=tmp_path) as learner:
        learner.observe(*batch(0))
        learner.checkpoint()
    resumed = Learner(network(), ER(), memory=10).resumed(tmp_path)
    assert resumed is not None
    assert not clips(resumed)
    resumed.close()
    with pytest.raises(InputError, match=r"was created with clip=None, not clip=2\.0"):
        Learner(network(), ER(), memory=10, clip=2.0).resumed(tmp_path)


def test_methods_that_train_no_weights_ignore_the_default() -> None:
    learner = Learner(MLP(4, 1, ()), NCM(), classes=["a", "b"])
    learner.observe(EXAMPLES, ["a", "b"])
    assert learner.predict(EXAMPLES)


def test_without_clipping_plain_descent_needs_no_optimiser() -> None:
    for how in ({}, {"clip": math.inf}):
        learner = Learner(network(), ER(), memory=10, **how)  # type: ignore[arg-type]
        learner.observe(*batch(0))
        assert (engine_of(learner).fleet.optimiser is None) == bool(how)
