"""Examples of all kinds, and what is refused with the learner left as it was."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from tests.learner.some_stream import engine_of
from torch import Tensor, nn

from recollect import ER, MLP, SGD, DERpp, DivergedError, InputError, Learner
from recollect.learner import Numbers


def stored(learner: Learner) -> Tensor:
    return engine_of(learner).fleet.memory.fields().x


class Words(nn.Module):
    """The mean of the embeddings of some tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 8)
        self.head = nn.Linear(8, 1)

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.head(self.table(tokens).mean(1))
        return logits


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (np.float16, torch.float16), (np.float32, torch.float32), (np.float64, torch.float32),
        (np.uint8, torch.uint8), (bool, torch.float32),
    ],
)  # fmt: skip
@pytest.mark.parametrize("source", ["numpy", "torch", "list of arrays"])
def test_numbers_of_every_type(given: type, kept: torch.dtype, source: str) -> None:
    values: np.ndarray = np.random.default_rng(0).integers(0, 2, size=(6, 4)).astype(given)
    x: Any = values
    if source == "torch":
        x = torch.from_numpy(values)
    elif source == "list of arrays":
        x = list(values)
    learner = Learner(MLP(4, 1), DERpp(), memory=6, lr=0.1)
    for _ in range(3):
        learner.observe(x, ["a", "b"] * 3)
    learner.observe(x[0], "a")
    assert stored(learner).dtype == kept
    assert len(learner.predict(x)) == 6
    assert learner.predict(x[0]) == learner.predict(x)[0]


def test_bytes_are_images_between_0_and_1() -> None:
    torch.manual_seed(0)
    module = MLP(12, 2)
    as_bytes, as_floats = (Learner(module, ER(), memory=5, classes=[0, 1]) for _ in range(2))
    images = np.random.default_rng(0).integers(256, size=(8, 3, 2, 2)).astype(np.uint8)
    for _ in range(5):
        loss = as_bytes.observe(images, [0, 1] * 4)
        assert as_floats.observe((images / 255), [0, 1] * 4) == pytest.approx(loss, rel=1e-5)
    assert stored(as_bytes).dtype == torch.uint8


def test_lists_of_numbers() -> None:
    learner = Learner(MLP(2, 1), ER(), memory=5)
    learner.observe([0.5, 1.0], "a")
    learner.observe([[0.5, 1.0], [1.0, 0.5]], ["a", "b"])
    assert learner.seen == 3
    assert isinstance(learner.predict([0.5, 1.0]), str)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.uint16, np.uint32])
def test_token_ids(dtype: type) -> None:
    learner = Learner(Words(), DERpp(), memory=30, lr=0.5)
    rng = np.random.default_rng(0)
    for _ in range(40):
        low, high = rng.integers(0, 25, size=(4, 6)), rng.integers(25, 50, size=(4, 6))
        learner.observe(np.concatenate([low, high]).astype(dtype), ["low"] * 4 + ["high"] * 4)
    assert learner.predict(np.arange(6).astype(dtype)) == "low"
    assert learner.predict(np.arange(44, 50).astype(dtype)) == "high"
    assert stored(learner).dtype in (torch.int32, torch.int64)


def test_a_token_that_the_table_has_not_is_refused() -> None:
    learner = Learner(Words(), DERpp(), memory=30, optimiser="Adam")
    for _ in range(3):
        learner.observe(np.arange(12).reshape(2, 6), ["a", "b"])
    before = learner._packed()
    with pytest.raises(InputError):
        learner.observe(np.full((2, 6), 50), ["a", "b"])
    with pytest.raises(InputError):
        learner.observe(np.full((2, 6), -1), ["a", "c"])
    with pytest.raises(InputError):
        learner.predict(np.full((2, 6), 50))
    assert learner._packed() == before


def test_networks_of_other_types() -> None:
    for dtype in (torch.float64, torch.bfloat16, torch.float16):
        learner = Learner(nn.Linear(4, 1).to(dtype), DERpp(), memory=5, lr=0.01)
        for _ in range(3):
            learner.observe(np.eye(4), ["a", "b", "a", "b"])
        assert learner.trained_module().weight.dtype == dtype
        assert learner.predict_proba(np.eye(4)).dtype == np.float64


def test_views_that_torch_cannot_share() -> None:
    x = np.arange(24, dtype=np.float32).reshape(6, 4)[::-1, ::-1]
    frozen = x.copy()
    frozen.flags.writeable = False
    module = nn.Linear(4, 2)
    one, other = (Learner(module, SGD(), classes=[0, 1], lr=1e-3) for _ in range(2))
    assert one.observe(x, [0, 1] * 3) == other.observe(frozen, [0, 1] * 3)


def test_what_is_given_is_not_changed_and_not_kept() -> None:
    x = np.ones((4, 3), dtype=np.float32)
    learner = Learner(MLP(3, 1), ER(), memory=4)
    learner.observe(x, ["a"] * 4)
    x[:] = 7
    assert torch.equal(stored(learner), torch.ones(1, 4, 3))
    grad = torch.ones(2, 3, requires_grad=True)
    learner.observe(grad * 2, ["a", "b"])
    assert grad.grad is None


REFUSED: list[tuple[Any, Any, str]] = [
    (np.ones((2, 5)), ["a", "b"], r"must have the shape \[4\].* not \[5\]"),
    (np.ones((2, 4, 1)), ["a", "b"], r"must have the shape \[4\]"),
    (np.ones(4), ["a"], "1 labels, but x has 4 examples"),
    (np.ones((2, 4)), "a", r"not \[2, 4\]"),
    (np.ones((2, 4)), ("a", "b", "c"), r"not \[2, 4\]"),
    (np.ones((2, 4), dtype=np.uint8), ["a", "b"], "must be float32, .* not uint8"),
    (np.ones((2, 4), dtype=np.int64), ["a", "b"], "must be float32, .* not int64"),
    (np.full((2, 4), np.nan), ["a", "b"], "not finite"),
    (np.array([[0, 1, 2, np.inf]]), ["a"], "not finite"),
    (np.full((1, 4), 1e300), ["a"], "not finite"),
    (np.zeros((0, 4)), [], "x has no examples"),
    (np.ones((2, 4), dtype=np.complex64), ["a", "b"], "cannot be of type complex64"),
    (np.array([["a", "b", "c", "d"]]), ["a"], "lists of numbers"),
    (None, "a", "lists of numbers"),
    ("text", "a", "lists of numbers"),
    ([[1.0, 2.0], [1.0]], ["a", "b"], "lists of numbers"),
    ({"x": 1}, "a", "one tensor"),
    (5.0, "a", r"must have the shape \[4\].* not \[\]"),
    (5.0, ["a"], "x is a single number"),
    (torch.ones(2, 4).to_sparse(), ["a", "b"], "neither sparse"),
    (torch.ones(2, 4, device="meta"), ["a", "b"], "device 'meta' have not"),
    (np.ones((2, 4)), np.array([["a"], ["b"]]), r"y\.reshape\(-1\) makes one"),
    (np.ones((2, 4), np.longdouble), ["a", "b"], r"ndarray of .*: convert them, .* 'float32'\)"),
    (np.zeros((2, 4), "M8[s]"), ["a", "b"], r"ndarray of datetime64\[s\]$"),
]


@pytest.mark.parametrize(("x", "y", "said"), REFUSED, ids=[said for _, _, said in REFUSED])
def test_what_cannot_be_learned_from_is_refused_and_changes_nothing(
    x: Any, y: Any, said: str
) -> None:
    learner = Learner(MLP(4, 1), DERpp(), memory=10, optimiser="Adam", on_outlier="raise")
    learner.observe(np.eye(4), ["a", "b", "a", "b"])
    before, classes = learner._packed(), learner.classes
    with pytest.raises(InputError, match=said):
        learner.observe(x, y)
    assert learner._packed() == before
    assert learner.classes == classes


@pytest.mark.parametrize("x", [5.0, np.ones(3), np.ones((2, 3)), [1, 2, 3, 4]], ids=repr)
def test_examples_that_the_network_cannot_take(x: Any) -> None:
    learner = Learner(MLP(4, 1), ER())
    y = ["a", "b"] if np.ndim(x) == 2 else "a"
    with pytest.raises(InputError, match="does not accept examples of shape"):
        learner.observe(x, y)
    assert learner.seen == 0
    learner.observe(np.ones(4), "a")
    assert learner.classes == ["a"]


def test_predictions_of_what_cannot_be() -> None:
    learner = Learner(MLP(4, 1), ER())
    with pytest.raises(InputError, match="call observe first"):
        learner.predict(np.ones(4))
    with pytest.raises(InputError, match="call observe first"):
        learner.trained_module()
    learner.observe(np.eye(4), ["a", "b", "a", "b"])
    for x in (np.ones(3), np.ones((2, 3)), np.ones((1, 2, 4)), 5.0, np.full(4, np.nan), "text"):
        with pytest.raises(InputError):
            learner.predict(x)
        with pytest.raises(InputError):
            learner.predict_proba(x)
    with pytest.raises(InputError):
        learner.predict(np.zeros((0, 4)))


def test_a_step_to_nowhere_is_taken_back() -> None:
    for optimiser in ("SGD", "Adam"):
        module = nn.Linear(4, 1)
        nn.init.ones_(module.weight)
        learner = Learner(module, DERpp(), memory=10, lr=0.1, optimiser=optimiser)
        learner.observe(np.eye(4), ["a", "b", "a", "b"])
        learner.observe(np.eye(4), ["a", "b", "a", "b"])
        before = learner._packed()
        with pytest.raises(DivergedError, match="was undone"):
            learner.observe(np.full((2, 4), 3e38), ["b", "c"], on_outlier="learn")
        assert learner._packed() == before
        learner.observe(np.eye(4), ["a", "b", "a", "b"])


def test_a_step_that_breaks_the_optimiser_is_taken_back() -> None:
    """The square of a gradient can be infinite although gradient and weights are finite."""
    how: Numbers = {"clip": math.inf}
    learner = Learner(nn.Linear(4, 2), SGD(), lr=0.01, optimiser="Adam", classes=["a", "b"], **how)
    learner.observe(np.eye(4), ["a", "b", "a", "b"])
    before = learner._packed()
    with pytest.raises(DivergedError):
        learner.observe(np.full((2, 4), 1e25), ["a", "b"], on_outlier="learn")
    assert learner._packed() == before


MADE: list[tuple[dict[str, Any], str]] = [
    ({"memory": 0}, "memory must be a whole number of at least 1, not 0"),
    ({"memory": 2.5}, "memory must be a whole number"),
    ({"memory": True}, "memory must be a whole number"),
    ({"replay": 0}, "replay must be a whole number"),
    ({"window": 0}, "window must be a whole number"),
    ({"lr": 0.0}, "lr must be a positive number"),
    ({"lr": float("nan")}, "lr must be a positive number"),
    ({"lr": "fast"}, "lr must be a positive number"),
    ({"seed": -1}, "seed must be a whole number"),
    ({"seed": 2**63}, "seed must be a whole number"),
    ({"checkpoint_every": 5}, "needs a folder"),
    ({"checkpoints": "x", "checkpoint_every": 0}, "checkpoint_every must be a whole number"),
    ({"checkpoints": "x", "keep": 0}, "keep must be a whole number, 1 or more, or None, not 0"),
    ({"checkpoints": "x", "keep": 2.5}, "keep must be a whole number, 1 or more, or None"),
    ({"checkpoints": "x", "checkpoint_every": True}, "checkpoint_every must be a whole number"),
]


@pytest.mark.parametrize(("told", "said"), MADE, ids=[str(told) for told, _ in MADE])
def test_a_learner_that_cannot_be_made(told: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Learner(MLP(4, 1), ER(), **told)


def test_what_is_no_network_and_no_method() -> None:
    with pytest.raises(InputError, match=r"must be a torch\.nn\.Module, not function"):
        Learner(lambda x: x, ER())  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"such as DERpp\(\)"):
        Learner(MLP(4, 1), DERpp)  # type: ignore[arg-type]
    learner = Learner(nn.Sequential(nn.Linear(4, 3), nn.Unflatten(1, (3, 1))), ER())
    with pytest.raises(InputError, match=r"logits of shape \[n, outputs\]"):
        learner.observe(np.ones(4), "a")


def test_a_tuple_is_a_label_or_the_labels_of_a_batch() -> None:
    """A DataLoader gives texts as a tuple; a tuple beside one example is its label."""
    batch, single = (Learner(MLP(4, 1), SGD()) for _ in range(2))
    batch.observe(np.ones((2, 4)), ("a", "b"))
    assert batch.classes == ["a", "b"]
    batch.observe(np.ones((2, 4)), ("b", "c"))
    assert batch.seen == 4
    single.observe(np.ones(4), ("a", "b"))
    single.observe(np.ones(4), ("a", "b", "c", "d"))
    assert single.classes == [("a", "b"), ("a", "b", "c", "d")]


@pytest.mark.parametrize("given", [(), (0,), (3,), (5,), (2, 5), (4, 2), (2, 2, 4), (1, 2, 2, 4)])
@pytest.mark.parametrize("network", [MLP(4, 1), nn.Linear(4, 1)])
def test_a_prediction_names_the_shape_expected_and_given(
    given: tuple[int, ...], network: nn.Module
) -> None:
    learner = Learner(network, DERpp())
    learner.observe(np.ones((2, 4)), ["a", "b"])
    for predict in (learner.predict, learner.predict_proba):
        with pytest.raises(InputError) as refused:
            predict(np.ones(given))
        assert str(refused.value) == (
            "an example must have the shape [4], like the first ones, and a batch of them "
            f"[n, 4], not {list(given)}"
        )
    with pytest.raises(InputError, match="x has no examples: its shape is"):
        learner.predict(np.ones((0, 4)))
