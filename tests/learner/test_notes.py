"""Notes of a learner: plain data and tensors that are saved with it."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
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


WRONG: list[Any] = [
    object(), float("nan"), {1, 2}, np.ones(2), b"x", Path(), {"x": torch.zeros(1)},
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG, ids=lambda value: type(value).__name__)
def test_what_is_neither_plain_nor_a_tensor_is_refused(wrong: Any) -> None:
    learner = Learner(MLP(2, 1), ER())
    learner.notes = {"row": 1}
    for assign in (
        lambda: setattr(learner, "notes", {"deep": wrong}),
        lambda: learner.notes.update(deep=wrong),
        lambda: learner.notes.__setitem__("deep", wrong),
        lambda: learner.notes.__ior__({"deep": wrong}),
        lambda: learner.notes.setdefault("deep", wrong),
    ):
        with pytest.raises(InputError, match=r"notes\['deep'\] cannot be saved: .*plain JSON data"):
            assign()
    assert learner.notes == {"row": 1}


@pytest.mark.parametrize(
    "wrong",
    [
        torch.eye(2).to_sparse(), torch.zeros(2, device="meta"),
        torch.zeros(2, dtype=torch.complex128),
    ],
    ids=["sparse", "meta", "complex128"],
)  # fmt: skip
def test_tensors_that_files_cannot_hold_are_refused(wrong: torch.Tensor) -> None:
    learner = Learner(MLP(2, 1), ER())
    with pytest.raises(InputError, match=r"notes\['m'\] cannot be saved: a tensor must be dense"):
        learner.notes = {"m": wrong}
    assert learner.notes == {}


@pytest.mark.parametrize("wrong", [None, [1], 3, (), np.int64(3), np.arange(2), np.ones(0)])
def test_notes_are_a_dictionary(wrong: Any) -> None:
    learner = Learner(MLP(2, 1), ER())
    with pytest.raises(InputError, match=r"must be a dictionary .*assign \{\}"):
        learner.notes = wrong
    with pytest.raises(InputError, match="names of notes must be strings, not 1"):
        learner.notes = {1: 2}  # type: ignore[dict-item]
    assert learner.notes == {}


def test_nested_data_that_became_wrong_later_are_refused_by_name(tmp_path: Path) -> None:
    learner = Learner(MLP(2, 1), ER())
    learner.notes = {"deep": {}}
    learner.notes["deep"]["x"] = torch.zeros(1)
    with pytest.raises(InputError, match=r"notes\['deep'\] cannot be saved"):
        learner.save(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_notes_are_what_they_will_be_after_loading(tmp_path: Path) -> None:
    learner = Learner(MLP(2, 1), ER())
    learner.notes = {"row": np.int64(3), "scale": np.float32(0.5), "on": np.bool_(True)}
    learner.notes |= {"files": ("a", "b"), "counts": {1: 2}}
    assert learner.notes == {
        "row": 3, "scale": 0.5, "on": True, "files": ["a", "b"], "counts": {"1": 2},
    }  # fmt: skip
    learner.save(tmp_path / "file")
    assert Learner.load(tmp_path / "file", MLP(2, 1)).notes == learner.notes
    assert copy.deepcopy(learner.notes) == learner.notes
