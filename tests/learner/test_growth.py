"""Classes that arrive: the network, the memory and the optimiser grow, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.learner.some_stream import engine_of
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from recollect import DER, ER, MLP, DERpp, InputError, Learner
from recollect.core.torch_optimiser import torch_optimisers
from recollect.methods import METHODS


def dense() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 6), nn.ReLU(), nn.Linear(6, 1))


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 4, 4)), nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Flatten(), nn.Linear(32, 1),
    )  # fmt: skip


class Named(nn.Module):
    """A head that is no part of a sequence, without a bias."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 8), nn.LayerNorm(8))
        self.head = nn.Linear(8, 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(x))
        return logits


NETWORKS: list[Callable[[], nn.Module]] = [
    dense, convolutional, Named, lambda: nn.Linear(16, 1), lambda: nn.Linear(16, 1, bias=False),
    lambda: MLP(16, 1, hidden=(8,)), lambda: dense().double(),
]  # fmt: skip
IDS = ["dense", "batch-norm", "no-bias", "bare", "bare-no-bias", "mlp", "float64"]


def some(n: int, seed: int = 0) -> Tensor:
    return torch.randn(n, 16, generator=torch.Generator().manual_seed(seed))


def growing(*arguments: Any, **options: Any) -> Learner:
    """A learner that grows with every class: no output waits for it."""
    return Learner(*arguments, **{"spare": 0, **options})


@pytest.mark.parametrize("optimiser", ["SGD", "AdamW"])
@pytest.mark.parametrize("make", NETWORKS, ids=IDS)
def test_growth_leaves_what_is_known_unchanged(
    make: Callable[[], nn.Module], optimiser: str
) -> None:
    learner = growing(make(), DERpp(), memory=20, lr=0.01, optimiser=optimiser)
    for step in range(6):
        learner.observe(some(4, step), ["a", "b", "a", "b"])
    engine = engine_of(learner)
    state = {name: tensor.clone() for name, tensor in engine.fleet.tensors().items()}
    x = some(10, seed=99)
    before = engine.logits(x)
    bigger = engine.grown(5)
    after = bigger.logits(x)
    torch.testing.assert_close(after[:, :2], before)  # a wider product rounds otherwise
    for name, tensor in bigger.fleet.tensors().items():
        old = state[name]
        corner = tensor[tuple(slice(size) for size in old.shape)]
        assert torch.equal(corner, old), name
        if not name.startswith(("weights.", "memory.")):
            assert tensor.sum().item() == pytest.approx(old.sum().item(), abs=1e-5), name
    assert engine.outputs == 2, "the smaller one stays"
    assert torch.equal(engine.logits(x), before)


@pytest.mark.parametrize("make", NETWORKS, ids=IDS)
def test_a_step_with_a_new_class_grows_first(
    make: Callable[[], nn.Module],
) -> None:
    """With a learning rate near 0, growth is all that a step does."""
    learner = growing(make(), DERpp(), memory=20, lr=1e-12)
    for step in range(3):
        learner.observe(some(4, step), ["a", "b", "a", "b"])
    x = some(5, seed=50)
    before = engine_of(learner).logits(x)[:, :2]
    learner.observe(some(4, seed=51), ["c", "a", "d", "e"])
    assert learner.classes == ["a", "b", "c", "d", "e"]
    if make is not convolutional:  # whose statistics have moved
        after = engine_of(learner).logits(x)
        torch.testing.assert_close(after[:, :2], before)


def test_the_memory_gets_what_new_outputs_say_of_it() -> None:
    learner = growing(dense(), DERpp(), memory=6, lr=0.1)
    for step in range(2):
        learner.observe(some(3, step), ["a", "b", "a"])
    before = engine_of(learner).fleet.memory.fields().logits.clone()
    assert before.shape == (1, 6, 2)
    bigger = engine_of(learner).grown(4)
    kept = bigger.fleet.memory.fields()
    assert torch.equal(kept.logits[..., :2], before)
    torch.testing.assert_close(kept.logits[0, :, 2:], bigger.logits(kept.x[0])[:, 2:])


def test_new_outputs_start_where_outputs_are_for_other_classes() -> None:
    torch.manual_seed(0)
    learner = growing(dense(), ER(), memory=20, lr=0.1)
    for step in range(40):
        x = some(4, step)
        learner.observe(x, ["a" if row[0] > 0 else "b" for row in x])
    engine = engine_of(learner)
    held = engine.fleet.memory.fields()
    said = engine.logits(held.x[0])
    other = said.gather(1, 1 - held.y[0][:, None])
    (bias,) = (t for n, t in engine.grown(3).fleet.weights.named().items() if n == "2.bias")
    assert float(bias[0, 2]) == pytest.approx(float(other.mean()), abs=1e-5)
    assert float(other.mean()) < -0.1


@pytest.mark.parametrize(
    ("outputs", "spare", "labels", "expected"),
    [
        (1, 10, ["a"], 11), (1, 10, ["a", "b"], 12), (1, 0, ["a", "b"], 2), (5, 10, ["a"], 5),
        (2, 3, ["a", "b"], 5),
    ],
)  # fmt: skip
def test_outputs_wait_for_classes(
    outputs: int, spare: int, labels: list[str], expected: int
) -> None:
    learner = Learner(MLP(16, outputs), ER(), spare=spare)
    learner.observe(some(len(labels)), labels)
    assert engine_of(learner).outputs == expected
    assert learner.classes == labels
    assert learner.predict_proba(some(3)).shape == (3, len(labels))
    many = [f"class {n}" for n in range(expected)]
    learner.observe(some(expected), many)
    assert engine_of(learner).outputs == len(labels) + expected + spare
    fixed = Learner(MLP(16, outputs), ER(), spare=spare, classes=labels)
    fixed.observe(some(len(labels)), labels)
    assert engine_of(fixed).outputs == max(outputs, len(labels))


def test_spare_outputs_make_arriving_classes_as_good_as_listed_ones() -> None:
    """Class after class: with outputs that wait, it is as if all had been known from the start."""
    centres = 2 * np.random.default_rng(0).normal(size=(8, 16))
    scores = {}
    for name, options in {
        "listed": {"classes": [*range(8)]}, "waiting": {"spare": 8}, "none": {"spare": 0},
    }.items():  # fmt: skip
        right = 0.0
        for seed in range(3):
            torch.manual_seed(seed)
            learner = Learner(MLP(16, 1), DER(alpha=0.5), memory=80, lr=0.1, seed=seed, **options)  # type: ignore[arg-type]
            rng = np.random.default_rng(seed)
            for label in range(8):
                for _ in range(30):
                    x = centres[label] + rng.normal(size=(10, 16))
                    learner.observe(x, [label] * 10)
            y = np.arange(400) % 8
            guesses = learner.predict(centres[y] + rng.normal(size=(400, 16)))
            right += float(np.mean(np.array(guesses) == y)) / 3
        scores[name] = right
    assert abs(scores["waiting"] - scores["listed"]) < 0.1
    assert scores["waiting"] > scores["none"] + 0.1


@pytest.mark.parametrize("name", sorted(set(torch_optimisers()) - {"Adafactor"}))
def test_every_optimiser_goes_on_after_growth(name: str) -> None:
    learner = growing(dense(), ER(), memory=30, lr=0.01, optimiser=name)
    for step in range(12):
        learner.observe(some(4, step), [step // 4] * 4)
    assert learner.classes == [0, 1, 2]
    head = learner.trained_module().state_dict()["2.weight"]
    assert torch.isfinite(head).all()
    assert head[2].abs().max() > 0, "the new output has learned"


def test_an_optimiser_with_sums_over_rows_wants_to_know_the_classes() -> None:
    with pytest.raises(InputError, match=r"Adafactor .*list all classes \(classes=\[\.\.\.\]\)"):
        growing(dense(), ER(), optimiser="Adafactor")
    growing(dense(), ER(), optimiser="Adafactor", classes=["a", "b"]).observe(some(2), ["a", "b"])
    # Nothing grows here.
    growing(dense(), ER(), optimiser="Adafactor", target="regression")
    growing(dense(), METHODS["ncm"](), optimiser="Adafactor")


def test_a_saved_learner_whose_optimiser_cannot_grow_is_loaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It may come from a version that did not refuse it, and its network may have room."""
    monkeypatch.setattr(Learner, "_loading", True)
    learner = growing(dense(), ER(), memory=30, lr=0.01, optimiser="Adafactor")
    monkeypatch.undo()
    learner.observe(some(4), ["a", "a", "b", "b"])
    learner.save(tmp_path / "saved")
    loaded = Learner.load(tmp_path / "saved", dense())
    before = loaded._packed()
    with pytest.raises(InputError, match=r"state .*list all classes \(classes=\[\.\.\.\]\)"):
        loaded.observe(some(4), ["a", "a", "b", "c"])
    assert loaded._packed() == before


def test_classes_that_come_one_by_one_or_all_at_once() -> None:
    learner = growing(MLP(16, 1), ER())
    learner.observe(some(40), list(range(40)))
    learner.observe(some(1)[0], 40)
    assert learner.classes == list(range(41))
    assert learner.predict_proba(some(3)).shape == (3, 41)


def test_a_network_with_room_does_not_grow() -> None:
    learner = growing(nn.Linear(16, 10), ER())
    learner.observe(some(3), ["a", "b", "c"])
    engine = engine_of(learner)
    learner.observe(some(3), ["d", "e", "f"])
    assert engine_of(learner) is engine
    assert engine.outputs == 10


def test_what_cannot_grow_says_so_and_is_unchanged() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(16, 16, bias=False), nn.Linear(16, 16, bias=False)
            self.last.weight = self.first.weight

        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = self.last(self.first(x).relu())
            return logits

    class Reversed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last, self.first = nn.Linear(8, 2), nn.Linear(16, 8)

        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = self.last(self.first(x).relu())
            return logits / 2  # no longer the output of a layer

    pooled = nn.Sequential(nn.Unflatten(1, (1, 16)), nn.Conv1d(1, 2, 16), nn.Flatten())
    normed = weight_norm(nn.Linear(16, 2))
    cases = [
        (Tied(), 16, "shares its weights"),
        (pooled, 2, "last layer is linear"),
        (normed, 2, "is a subclass or has hooks"),
    ]
    for module, room, said in cases:
        learner = growing(module, ER())
        learner.observe(some(room), list(range(room)))
        before = learner._packed()
        with pytest.raises(InputError, match=said):
            learner.observe(some(2), [0, room])
        assert learner._packed() == before
        learner.observe(some(2), [0, 1])
    learner = growing(Reversed(), ER())
    learner.observe(some(2), [0, 1])
    with pytest.raises(InputError, match="does not compute its logits"):
        learner.observe(some(2), [1, 2])
    assert learner.classes == [0, 1]


def test_state_with_a_value_for_every_class_grows_with_them() -> None:
    learner = growing(MLP(16, 1), METHODS["er-ace"](), memory=12)
    learner.observe(some(2), ["a", "b"])
    learner.observe(some(1), ["c"])
    assert engine_of(learner).fleet.state["seen"].tolist() == [[True, True, True]]
    bigger = engine_of(learner).grown(5)
    assert bigger.fleet.state["seen"].tolist() == [[True, True, True, False, False]]


def test_copies_of_the_network_grow_as_it_does() -> None:
    learner = growing(MLP(16, 1, hidden=(8,)), METHODS["cls-er"](), memory=12)
    for seed in range(3):
        learner.observe(some(4, seed), ["a", "b", "a", "b"])
    before = engine_of(learner).fleet
    after = engine_of(learner).grown(5).fleet
    new = after.weights.named()
    for copy in ("plastic", "stable"):
        for name, tensor in after.state.weights(copy).named().items():
            old = before.state.weights(copy).named()[name]
            same = tuple(slice(size) for size in old.shape)
            assert torch.equal(tensor[same], old), "what was averaged stays"
            if name.startswith("head"):
                assert torch.equal(tensor[..., 2:], new[name][..., 2:]), "outputs begin alike"


def test_a_method_whose_state_is_divided_among_classes_wants_to_know_them() -> None:
    learner = growing(MLP(16, 1), METHODS["er-hybrid"](), memory=12)
    learner.observe(some(2), ["a", "b"])
    before = learner._packed()
    with pytest.raises(InputError, match=r"list all classes \(classes=\[\.\.\.\]\)"):
        learner.observe(some(1), ["c"])
    assert learner._packed() == before


@pytest.mark.parametrize("name", ["er-ring", "er-kmeans", "er-mof"])
def test_methods_that_share_by_class_want_to_know_them(name: str) -> None:
    with pytest.raises(InputError, match=r"list all classes \(classes=\[\.\.\.\]\)"):
        growing(MLP(16, 1), METHODS[name](), memory=12)
    told = growing(MLP(16, 1), METHODS[name](), memory=12, classes=["a", "b", "c"])
    told.observe(some(2), ["a", "b"])
    told.observe(some(1), ["c"])
