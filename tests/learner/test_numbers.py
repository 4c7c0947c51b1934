"""Numbers and names of a learner's arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.learner.some_stream import batch, network

from recollect import ER, InputError, Learner


def test_numbers_may_be_those_of_numpy(tmp_path: Path) -> None:
    how: dict[str, Any] = {"lr": np.float32(0.5), "clip": np.int64(3), "warmup": np.int32(2)}
    learner = Learner(network(), ER(), memory=10, **how)
    learner.observe(*batch(0))
    learner.lr = np.float32(0.25)  # type: ignore[assignment]
    learner.observe(*batch(1))
    learner.save(tmp_path / "saved")
    assert (learner.lr, Learner.load(tmp_path / "saved", network()).lr) == (0.25, 0.25)
    for value in (np.float32("nan"), np.bool_(True), np.complex64(1)):
        with pytest.raises(InputError, match="lr must be a positive number"):
            learner.lr = value  # type: ignore[assignment]
        with pytest.raises(InputError, match="clip must be"):
            Learner(network(), ER(), clip=value)  # type: ignore[arg-type]


@pytest.mark.parametrize(("word", "name"), [("buffer", "memory"), ("mbs", "replay"), ("lrr", "lr")])
def test_an_unknown_argument_is_told_from_the_words_of_run(word: str, name: str) -> None:
    with pytest.raises(TypeError, match=f"no argument '{word}': did you mean '{name}'"):
        Learner(network(), ER(), **{word: 3})  # type: ignore[arg-type]
