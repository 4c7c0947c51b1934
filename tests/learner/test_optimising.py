"""Optimisers, schedules and clipping of a learner, under the names of `recollect.run`."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.learner.some_stream import batch, engine_of, network
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, StepLR

from recollect import ER, SGD, DERpp, DivergedError, InputError, Learner
from recollect.learner import Numbers
from recollect.train.optimisation import NUMBERS

STEPS = 200
CASES: dict[str, dict[str, Any]] = {
    "momentum": {"momentum": 0.9},
    "nesterov": {"momentum": 0.9, "nesterov": True, "weight_decay": 1e-2},
    "weight decay": {"weight_decay": 0.1},
    "clip": {"clip": 0.3},
    "adam": {"optimiser": "Adam", "beta1": 0.8, "beta2": 0.95, "eps": 1e-6, "weight_decay": 0.05},
    "adamw": {"optimiser": "AdamW"},
    "momentum, clip, step": {"momentum": 0.9, "clip": 0.3, "schedule": "step", "decay_every": 60,
                             "decay_factor": 0.3},
    "adam, clip, cosine": {"optimiser": "Adam", "clip": 0.1, "schedule": "cosine",
                           "schedule_steps": STEPS},
    "adamw, warm-up": {"optimiser": "AdamW", "weight_decay": 0.3, "warmup": 50},
    "plain, cosine": {"schedule": "cosine", "schedule_steps": STEPS},
    "one of torch's, clip, cosine": {"optimiser": "RMSprop", "optimiser_options": {"alpha": 0.9},
                                     "clip": 0.2, "schedule": "cosine", "schedule_steps": STEPS},
}  # fmt: skip
LR = 0.02


def learner_of(case: str, make: Callable[[], nn.Module] = network, **how: Any) -> Learner:
    return Learner(make(), DERpp(), memory=20, lr=LR, **CASES[case], **how)


def linear() -> nn.Module:
    """A network whose outputs overflow where inputs are as large as they can be."""
    torch.manual_seed(1)
    module = nn.Linear(4, 3)
    nn.init.uniform_(module.weight, 0.9, 1.1)
    return module


class Hand:
    """The loop that anyone would write with torch's optimiser."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.module = network().double()
        names = ("momentum", "nesterov", "weight_decay", "eps")
        options = {n: v for n, v in given.items() if n in names}
        if "beta1" in given:
            options["betas"] = given["beta1"], given["beta2"]
        options |= given.get("optimiser_options", {})
        kind = getattr(torch.optim, given.get("optimiser", "SGD"))
        self.optimiser = kind(self.module.parameters(), lr=LR, **options)
        self.clip = given.get("clip")
        self.schedule: Any = None
        if given.get("schedule") == "cosine":
            self.schedule = CosineAnnealingLR(self.optimiser, STEPS)
        if given.get("schedule") == "step":
            self.schedule = StepLR(self.optimiser, given["decay_every"], given["decay_factor"])
        if "warmup" in given:
            self.schedule = LambdaLR(
                self.optimiser, lambda step: min(1.0, (step + 1) / given["warmup"])
            )

    def step(self, x: np.ndarray, y: list[int]) -> None:
        self.optimiser.zero_grad()
        loss = cross_entropy(self.module(torch.tensor(x).double()), torch.tensor(y))
        loss.backward()  # type: ignore[no-untyped-call]
        if self.clip is not None:
            nn.utils.clip_grad_norm_(self.module.parameters(), self.clip)
        self.optimiser.step()
        if self.schedule is not None:
            self.schedule.step()


def assert_same(learner: Learner, hand: nn.Module) -> None:
    learned = learner.trained_module().state_dict()
    for name, tensor in hand.state_dict().items():
        torch.testing.assert_close(learned[name], tensor, rtol=0, atol=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_two_hundred_steps_are_those_of_torch(case: str) -> None:
    learner = Learner(network().double(), SGD(), lr=LR, classes=[0, 1, 2], **CASES[case])
    hand = Hand(CASES[case])
    for step in range(STEPS):
        x, y = batch(step)
        learner.observe(x, y)
        hand.step(x, y)
    assert_same(learner, hand.module)


def test_a_rate_that_is_set_is_used_from_the_next_step_on() -> None:
    for case in ("momentum", "adamw", "plain, cosine", "one of torch's, clip, cosine"):
        learner = Learner(network().double(), SGD(), lr=LR, classes=[0, 1, 2], **CASES[case])
        hand = Hand(CASES[case])
        for step in range(40):
            if step == 20:
                learner.lr = 0.005
                assert learner.lr == 0.005
                for group in hand.optimiser.param_groups:
                    group["lr"] *= 0.005 / LR
                if hand.schedule is not None:
                    hand.schedule.base_lrs = [0.005]
            hand.step(*batch(step))
            learner.observe(*batch(step))
        assert_same(learner, hand.module)


def test_a_rate_may_be_set_before_the_first_step_and_survives_growth(tmp_path: Path) -> None:
    one, other = (Learner(network(1), ER(), lr=lr, spare=0) for lr in (0.1, 0.3))
    one.lr = 0.3
    for step in range(9):
        assert one.observe(*batch(step)) == other.observe(*batch(step))
    one.lr = other.lr = 0.01
    for learner in (one, other):
        learner.observe(np.zeros((1, 4), "float32"), ["new"])
    torch.testing.assert_close(state(one), state(other), rtol=0, atol=0)


def state(learner: Learner) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in engine_of(learner).fleet.tensors().items()}


def test_a_rate_that_was_set_is_saved_and_does_not_stand_in_the_way(tmp_path: Path) -> None:
    def made(**how: Any) -> Learner:
        return Learner(network(), ER(), lr=0.1, momentum=0.9, **how)

    learner = made(checkpoints=tmp_path, checkpoint_every=1)
    learner.observe(*batch(0))
    learner.lr = 0.02
    learner.observe(*batch(1))
    learner.close()
    for again in (made().resumed(tmp_path), pickle.loads(pickle.dumps(learner)),
                  copy.deepcopy(learner)):  # fmt: skip
        assert again is not None
        assert again.lr == 0.02
        assert again._packed() == learner._packed()
        again.close()
    with pytest.raises(InputError, match=r"was created with lr=0\.1, not lr=0\.02"):
        Learner(network(), ER(), lr=0.02, momentum=0.9).resumed(tmp_path)
    with pytest.raises(InputError, match=r"was created with momentum=0\.9, not momentum=None"):
        Learner(network(), ER(), lr=0.1).resumed(tmp_path)


def test_what_may_be_set_on_a_learner() -> None:
    learner = learner_of("momentum")
    learner.notes = {"row": 5}
    for value in (0.0, -1.0, float("nan"), "fast", None):
        with pytest.raises(InputError, match="lr must be a positive number"):
            learner.lr = value  # type: ignore[assignment]
    assert learner.lr == LR
    for name in ("rate", "momentum", "learning_rate", "seen", "classes"):
        with pytest.raises(AttributeError, match=f"'{name}' cannot be assigned: only drift, lr"):
            setattr(learner, name, 1)
    with pytest.raises(AttributeError, match=r"the size of the memory, call resize\(30\)"):
        learner.memory = 30  # type: ignore[attr-defined]


@pytest.mark.parametrize("case", CASES)
def test_it_goes_on_as_if_it_had_never_stopped(case: str, tmp_path: Path) -> None:
    whole, parts = (learner_of(case) for _ in range(2))
    for step in range(12):
        assert whole.observe(*batch(step)) == parts.observe(*batch(step))
        if step % 4 == 1:
            parts.save(tmp_path / "learner")
            parts = Learner.load(tmp_path / "learner", network())
    assert parts._packed() == whole._packed()


@pytest.mark.parametrize("case", CASES)
def test_a_step_that_diverges_leaves_the_averages_as_they_were(case: str) -> None:
    learner, twin = (learner_of(case, linear) for _ in range(2))
    for step in range(3):
        learner.observe(*batch(step))
        twin.observe(*batch(step))
    before, packed = state(learner), learner._packed()
    with pytest.raises(DivergedError, match="was undone"):
        learner.observe(np.full((2, 4), 3e38, "float32"), [0, 1], on_outlier="learn")
    with pytest.raises(DivergedError, match="was undone"):  # with an output more
        learner.observe(np.full((2, 4), 3e38, "float32"), [0, "new"], on_outlier="learn")
    torch.testing.assert_close(state(learner), before, rtol=0, atol=0)
    assert learner._packed() == packed
    assert learner.observe(*batch(3)) == twin.observe(*batch(3))
    assert learner._packed() == twin._packed()


@pytest.mark.parametrize("case", ["momentum", "nesterov", "adam", "adamw"])
def test_averages_grow_with_the_head(case: str) -> None:
    learner = learner_of(case, spare=0)
    for step in range(6):
        learner.observe(*batch(step))
    engine = engine_of(learner)
    before, after = engine.fleet.tensors(), engine.grown(5).fleet.tensors()
    names = [name for name in before if name.startswith("optimiser.")]
    assert names
    assert before.keys() == after.keys()
    for name in names:
        old, new = before[name], after[name]
        assert old.any()
        corner = tuple(slice(size) for size in old.shape)
        assert torch.equal(new[corner], old), name
        assert new.sum() == pytest.approx(float(old.sum()), abs=1e-5), "what is new starts at zero"
    head = {n: t.shape for n, t in after.items() if n.startswith("optimiser.2.weight.")}
    assert {tuple(shape) for n, shape in head.items() if not n.endswith("step")} == {(1, 5, 6)}


def test_a_weight_that_is_frozen_has_no_average_and_does_not_decay() -> None:
    module = network()
    frozen = module.get_parameter("0.weight")
    module[0].requires_grad_(False)
    learner = Learner(module, ER(), memory=10, optimiser="AdamW", weight_decay=0.5)
    for step in range(5):
        learner.observe(*batch(step))
    assert torch.equal(learner.trained_module().get_parameter("0.weight"), frozen)
    owners = {n.split(".")[1] for n in state(learner) if n.startswith("optimiser.")}
    assert owners == {"2"}


def test_plain_descent_and_clipping_have_no_averages() -> None:
    for how in ({}, {"clip": 1.0}, {"weight_decay": 0.1}):
        learner = Learner(network(), ER(), memory=10, **how)  # type: ignore[arg-type]
        learner.observe(*batch(0))
        assert not any(name.startswith("optimiser.") for name in state(learner))


def test_the_numbers_are_those_of_run() -> None:
    assert [*Numbers.__annotations__] == [*NUMBERS]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"optimiser": "Adm"}, "unknown optimiser 'Adm'"),
        ({"optimiser": "Adam", "momentum": 0.9}, "Adam with schedule 'constant' has no momentum"),
        ({"momentum": 1.0}, "momentum must be at least 0 and below 1"),
        ({"momentum": -0.1}, "momentum must be at least 0 and finite"),
        ({"momentum": "much"}, "momentum must be a number, not 'much'"),
        ({"weight_decay": float("inf")}, "weight_decay must be at least 0 and finite"),
        ({"nesterov": True}, "needs a momentum"),
        ({"optimiser": "AdamW", "nesterov": True}, "an option of SGD"),
        ({"clip": 0.0}, "clip must be greater than 0"),
        ({"schedule": "cosin"}, "unknown schedule 'cosin'"),
        ({"schedule": "cosine"}, r"needs a length, .* \(schedule_steps=\.\.\.\)$"),
        (
            {"schedule": "step"},
            r"schedule_steps=\.\.\.\), or the number of steps between decays .*decay_every=\.\.\.",
        ),
        ({"schedule_steps": 100}, "schedule='step' or schedule='cosine'"),
        ({"schedule": "cosine", "schedule_steps": 0}, "whole number of at least 1, not 0"),
        ({"schedule": "cosine", "schedule_steps": 1.5}, "whole number of at least 1"),
        ({"decay_every": 5}, "schedule='step'"),
        ({"optimiser": "RMSprop", "momentum": 0.9}, "takes momentum among optimiser_options"),
        ({"optimiser_options": {"momentum": 0.9}, "nesterov": True}, "takes nesterov among"),
        ({"optimiser_options": {"foreach": True}, "momentum": 0.9}, "takes momentum among"),
        ({"optimiser": "RMSprop", "optimiser_options": {"lr": 0.1}}, r"learning rate as lr=\.\.\."),
        ({"optimiser": "RMSprop", "optimiser_options": {"beta": 1}}, "RMSprop does not accept"),
        ({"optimiser": "RMSprop", "optimiser_options": {"alpha": "x"}}, "does not accept these"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        Learner(network(), ER(), **given)


def test_an_argument_that_there_is_not() -> None:
    with pytest.raises(TypeError, match="no argument 'momentun': did you mean 'momentum'"):
        Learner(network(), ER(), momentun=0.9)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="no argument 'memroy': did you mean 'memory'"):
        Learner(network(), ER(), memroy=9)  # type: ignore[call-arg]


def test_options_with_several_values_are_resumed(tmp_path: Path) -> None:
    """A file has a list where there was a tuple."""
    how: dict[str, Any] = {"optimiser": "Adam", "optimiser_options": {"betas": (0.8, 0.9)}}
    learner = Learner(network(), ER(), checkpoints=tmp_path, checkpoint_every=1, **how)
    learner.observe(*batch(0))
    learner.close()
    again = Learner(network(), ER(), **how).resumed(tmp_path)
    assert again is not None
    assert again._packed() == learner._packed()
