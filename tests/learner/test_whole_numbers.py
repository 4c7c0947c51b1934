"""Whole numbers: lists of them in a stream of floats, and NumPy's as arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from recollect import ER, MLP, DERpp, InputError, Learner

ARGUMENTS = {"memory": 8, "replay": 4, "seed": 3, "window": 6, "spare": 2, "pending": 5}


def learned(**arguments: Any) -> Learner:
    torch.manual_seed(0)
    learner = Learner(MLP(4, 1), DERpp(), lr=0.1, max_classes=9, **arguments)
    for _ in range(4):
        learner.observe(np.eye(4), ["a", "b", "a", "b"])
    return learner


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.uint16])
def test_integers_of_numpy_are_integers(kind: Any, tmp_path: Path) -> None:
    given = {name: kind(number) for name, number in ARGUMENTS.items()}
    more = {"checkpoints": tmp_path, "checkpoint_every": kind(1), "keep": kind(2)}
    with learned(**given, **more) as learner:
        plain = learned(**ARGUMENTS)
        assert learner._packed() == plain._packed()
        learner.flush()
        assert len(Learner.versions(tmp_path)) == 2
        learner.resize(kind(5))
        plain.resize(5)
        assert learner._packed() == plain._packed()


@pytest.mark.parametrize("wrong", [np.int64(0), np.float64(3), np.True_])
def test_other_numbers_of_numpy_are_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match="memory must be a whole number of at least 1"):
        Learner(MLP(4, 1), ER(), memory=wrong)


@pytest.mark.parametrize("x", [[1, 0, 0, 1], (1, 0, 0, 1)], ids=["list", "tuple"])
def test_a_list_of_whole_numbers_belongs_to_a_stream_of_floats(x: Any) -> None:
    one, other = learned(**ARGUMENTS), learned(**ARGUMENTS)
    floats = np.array(x, np.float32)
    assert one.observe(x, "a") == other.observe(floats, "a")
    assert one.observe([x, x], ["a", "b"]) == other.observe(np.stack([floats] * 2), ["a", "b"])
    assert one.predict(x) == other.predict(floats)
    assert one.predict(x, ids="late") == other.predict(floats, ids="late")
    assert one.label("late", "b").loss == other.label("late", "b").loss
    assert one._packed() == other._packed()


def test_a_row_of_whole_numbers_is_learned_beside_one_that_cannot_be_read() -> None:
    learner = learned(**ARGUMENTS)
    learner.observe([[1, 0, 0, 1], [1, 0, "x", 1]], ["a", "b"])
    assert (learner.seen, learner.metrics().left_out) == (17, 1)


def test_an_array_of_whole_numbers_does_not() -> None:
    learner = learned(**ARGUMENTS)
    with pytest.raises(InputError, match="must be float32, like the first ones, not int64"):
        learner.predict(np.array([1, 0, 0, 1]))


class Parts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(9, 3), nn.Linear(3, 2)

    def forward(self, words: Tensor, sizes: Tensor) -> Tensor:
        logits: Tensor = self.head(self.words(words).mean(1) + sizes)
        return logits


def test_lists_of_whole_numbers_for_several_inputs() -> None:
    learner = Learner(Parts(), ER(), memory=8)
    learner.observe({"words": [[1, 2], [3, 4]], "sizes": [[0.5, 1, 2], [1, 2, 3]]}, ["a", "b"])
    whole = {"words": [1, 2], "sizes": [1, 2, 3]}
    floats = {"words": [1, 2], "sizes": [1.0, 2.0, 3.0]}
    assert (learner.predict_proba(whole) == learner.predict_proba(floats)).all()
    learner.observe(whole, "a")
    assert learner.seen == 3


def test_before_the_first_label_examples_that_the_network_refuses_do_not_wait(
    tmp_path: Path,
) -> None:
    learner = Learner(MLP(4, 1), ER(), checkpoints=tmp_path)
    for x in ([1, 0, 0, 0], [0.5, 0.5, 0.5]):
        with pytest.raises(InputError, match="the network does not accept examples of shape"):
            learner.predict(x, ids="a")
    assert learner.pending == 0
    assert list(tmp_path.glob("*.journal")) == []
    assert learner.predict([0.5, 0, 0, 0], ids="b") is None
    assert learner.predict([1, 0, 0, 0], ids="c") is None
    assert learner.label(["b", "c"], ["up", "down"]).learned == 2
    learner.close()


def test_before_the_first_label_an_encoder_is_tried_too() -> None:
    learner = Learner(nn.Linear(3, 1), ER(), encoder=nn.Linear(4, 3))
    with pytest.raises(InputError, match="encoder"):
        learner.predict([0.5, 0.5, 0.5], ids="a")
    assert learner.predict([0.5, 0.5, 0.5, 0.5], ids="a") is None
    assert learner.label("a", "up").learned == 1
