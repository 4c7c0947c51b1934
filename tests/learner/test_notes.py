"""Notes of a learner: plain data and tensors that are saved with it."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import torch

from recollect import ER, MLP, InputError, Learner


@pytest.mark.parametrize("learned", [False, True])
def test_tensors_among_the_notes_are_saved_as_they_were(learned: bool, tmp_path: Path) -> None:
    learner = Learner(MLP(2, 1), ER(), memory=10)
    if learned:
        learner.observe([[1.0, 0.0], [0.0, 1.0]], ["a", "b"])
    images = torch.arange(12, dtype=torch.uint8).reshape(3, 2, 2)
    learner.notes = {"row": 5, "waiting.x": images}
    learner.use_folder(tmp_path / "folder")
    learner.checkpoint(wait=False)
    images += 1  # after the moment that is saved
    learner.save(tmp_path / "file")
    learner.close()
    resumed = Learner.resume(tmp_path / "folder", MLP(2, 1))
    assert resumed is not None
    for found, shift in (
        (resumed, 0),
        (Learner.load(tmp_path / "file", MLP(2, 1)), 1),
        (pickle.loads(pickle.dumps(learner)), 1),
    ):
        assert found.notes["row"] == 5
        assert set(found.notes) == {"row", "waiting.x"}
        assert torch.equal(found.notes["waiting.x"] - shift, torch.arange(12).reshape(3, 2, 2))
        assert found.notes["waiting.x"].dtype == torch.uint8


def test_what_is_neither_plain_nor_a_tensor_is_refused(tmp_path: Path) -> None:
    learner = Learner(MLP(2, 1), ER())
    learner.notes = {"deep": {"x": torch.zeros(1)}}
    with pytest.raises(InputError, match="plain JSON data"):
        learner.save(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []
