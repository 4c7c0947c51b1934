"""Labels of all kinds, and the outputs that belong to them."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from recollect import ER, MLP, SGD, InputError, Learner
from recollect.learner.targets.labels import Labels, decoded, encoded, labels_of

KINDS: list[list[Hashable]] = [
    [0, 1, 2],
    [-5, 2**63 - 1, 7],
    ["cat", "dog", ""],
    ["ä", "\ud800", "\n"],
    [("a", 1), ("a", 2), ("a", (2, None))],
    ["None", 0, -1],
    [b"x", "x", b""],
    [(0.5,), (-2.0, float("-inf")), (None,)],
    [True, False, "True"],
    [1, "1", (1,)],
]


@pytest.mark.parametrize("labels", KINDS, ids=repr)
def test_labels_come_back_as_they_were(labels: list[Hashable], tmp_path: Path) -> None:
    learner = Learner(MLP(3, 1, hidden=(16,)), ER(), memory=30, lr=0.3)
    x = np.eye(3, dtype=np.float32)
    for _ in range(60):
        learner.observe(x, labels)
    assert learner.classes == labels
    assert learner.predict(x) == labels
    assert [learner.predict(row) for row in x] == labels
    assert [type(label) for label in learner.predict(x)] == [type(label) for label in labels]
    assert list(learner.metrics().per_class) == labels
    learner.save(tmp_path / "learner")
    again = Learner.load(tmp_path / "learner", MLP(3, 1, hidden=(16,)))
    assert again.classes == labels
    assert [type(label) for label in again.classes] == [type(label) for label in labels]


@pytest.mark.parametrize(
    "y",
    [
        np.array([3, 5]), np.array([3, 5], dtype=np.uint8), torch.tensor([3, 5]), [3, 5],
        [np.int64(3), np.int32(5)], [torch.tensor(3), torch.tensor(5)],
        np.array([3, 5], dtype=object), np.array([3.0, 5.0]),
    ],
    ids=repr,
)  # fmt: skip
def test_whole_numbers_are_the_same_label_wherever_they_come_from(y: Any) -> None:
    learner = Learner(MLP(2, 1), SGD())
    learner.observe(np.eye(2), y)
    assert learner.classes == [3, 5]
    learner.observe(np.ones(2), 5)
    learner.observe(np.ones(2), np.int16(3))
    learner.observe(np.ones(2), torch.tensor(3))
    learner.observe(np.ones(2), np.array(3))
    assert learner.classes == [3, 5]
    assert not any(isinstance(label, np.generic | torch.Tensor) for label in learner.classes)


def test_arrays_of_text_are_batches_and_a_text_is_one_label() -> None:
    assert labels_of(np.array(["cat", "dog"])) == (["cat", "dog"], True)
    assert labels_of("cat") == (["cat"], False)
    assert labels_of(np.str_("cat")) == (["cat"], False)
    assert labels_of(("cat", "dog")) == ([("cat", "dog")], False)
    assert labels_of(b"cat") == ([b"cat"], False)
    assert labels_of(None) == ([None], False)


def test_what_has_an_array_is_a_batch() -> None:
    class Series:
        def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
            return np.array(["cat", "dog"])

    assert labels_of(Series()) == (["cat", "dog"], True)


@pytest.mark.parametrize(
    ("y", "said"),
    [
        ([["a"], ["b"]], "hashable"), ([{}, {}], "hashable"), ([{1}, {2}], "not set"),
        ([float("nan"), 1.0], "cannot be a label"), (np.array([[1], [2]]), "one axis"),
        (np.array([1.0, np.nan]), "cannot be a label"), ([1, 2, 3], "3 labels, but x has 2"),
        ([], "0 labels, but x has 2 examples"), (torch.zeros(2, 1), "one axis"),
        ([torch.zeros(2), torch.zeros(2)], "cannot be a label"),
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_no_label_is_refused(y: Any, said: str) -> None:
    learner = Learner(MLP(2, 1), SGD())
    learner.observe(np.eye(2), ["a", "b"])
    before = learner._packed()
    with pytest.raises(InputError, match=said):
        learner.observe(np.eye(2), y)
    assert learner._packed() == before


def test_fixed_classes() -> None:
    learner = Learner(MLP(2, 1), ER(), classes=["a", "b", "c"])
    assert learner.classes == ["a", "b", "c"]
    learner.observe(np.eye(2), ["c", "b"])
    assert learner.predict_proba(np.ones(2)).shape == (3,)
    before = learner._packed()
    with pytest.raises(InputError, match=r"unknown label 'd': .* fixed \('a', 'b', 'c'\)"):
        learner.observe(np.eye(2), ["a", "d"])
    assert learner._packed() == before
    assert learner.metrics().per_class == {"a": None, "b": 0.0, "c": 0.0}


def test_fixed_classes_stay_fixed_in_a_file(tmp_path: Path) -> None:
    learner = Learner(MLP(2, 1), ER(), classes=["a", "b"])
    for seen in (0, 2):
        learner.save(tmp_path / "learner")
        again = Learner.load(tmp_path / "learner", MLP(2, 1))
        assert (again.seen, again.classes) == (seen, ["a", "b"])
        with pytest.raises(InputError, match="unknown label 'c'"):
            again.observe(np.ones(2), "c")
        learner.observe(np.eye(2), ["b", "a"])


def test_fixed_classes_may_be_an_array_and_occur_once() -> None:
    learner = Learner(MLP(2, 3), SGD(), classes=np.arange(3))  # type: ignore[arg-type]
    learner.observe(np.ones(2), 2)
    assert learner.classes == [0, 1, 2]
    with pytest.raises(InputError, match="twice"):
        Learner(MLP(2, 3), SGD(), classes=[1, 2, 1])


def test_a_long_list_of_fixed_classes_is_not_told_whole() -> None:
    with pytest.raises(InputError, match=r"fixed \(0, 1, .*9, \.\.\.\)"):
        Labels(tuple(range(1000)), fixed=True).with_new([1000])


def test_a_label_that_no_file_can_hold_is_told_before_it_is_learned(tmp_path: Path) -> None:
    label = frozenset("ab")
    plain = Learner(MLP(2, 1), SGD())
    plain.observe(np.ones(2), label)
    assert plain.predict(np.ones(2)) == label
    with pytest.raises(InputError, match="cannot be written to a file"):
        plain.save(tmp_path / "learner")
    assert not list(tmp_path.iterdir())
    saving = Learner(MLP(2, 1), SGD(), checkpoints=tmp_path)
    with pytest.raises(InputError, match="cannot be written to a file"):
        saving.observe(np.ones(2), label)
    assert saving.seen == 0


@pytest.mark.parametrize("label", [(np.int64(3), "a"), (1, (np.float32(0.5),))], ids=repr)
def test_scalars_of_arrays_within_a_tuple_are_plain_too(
    label: tuple[Any, ...], tmp_path: Path
) -> None:
    learner = Learner(MLP(2, 1), SGD())
    learner.observe(np.ones(2), label)
    learner.save(tmp_path / "learner")
    assert Learner.load(tmp_path / "learner", MLP(2, 1)).classes == [label]


@pytest.mark.parametrize("label", [label for some in KINDS for label in some], ids=repr)
def test_plain_data_and_back(label: Hashable) -> None:
    again = decoded(encoded(label))
    assert again == label
    assert type(again) is type(label)


@pytest.mark.parametrize(
    ("label", "said"),
    [
        (0.5, "regression"), (np.float32(2.25), "regression"), (float("inf"), "regression"),
        (None, "the label is None"), (2**63, "too large"), (1e300, "too large"),
        (-(2**70), "too large"), ("x" * 1001, "too large"), (tuple(range(1001)), "too large"),
    ],
    ids=["half", "float32", "inf", "None", "2^63", "1e300", "-2^70", "text", "tuple"],
)  # fmt: skip
def test_what_cannot_be_the_name_of_a_class_is_refused(label: Any, said: str) -> None:
    learner = Learner(MLP(2, 1), SGD())
    for before in (0, 2):
        packed = learner._packed()
        with pytest.raises(InputError, match=said):
            learner.observe(np.eye(2), ["a", label])
        with pytest.raises(InputError, match=said):
            learner.observe(np.ones(2), label)
        assert (learner._packed(), learner.seen) == (packed, before)
        learner.observe(np.eye(2), ["a", "b"])


def test_an_array_of_quantities_is_refused_and_one_of_whole_numbers_is_not() -> None:
    learner = Learner(MLP(2, 1), SGD())
    with pytest.raises(InputError, match="regression"):
        learner.observe(np.eye(2), np.array([0.1, 0.7]))
    learner.observe(np.eye(2), np.array([1.0, 2.0]))
    learner.observe(np.eye(2), [2, 1])
    assert learner.classes == [1, 2]
    assert [type(label) for label in learner.classes] == [int, int]


def test_more_classes_than_allowed_are_refused() -> None:
    learner = Learner(MLP(2, 1), SGD(), max_classes=3)
    learner.observe(np.eye(2), ["a", "b"])
    before = learner._packed()
    with pytest.raises(InputError, match=r"'d' would be class number 4, .* at most 3 "):
        learner.observe(np.eye(2), ["c", "d"])
    assert learner._packed() == before
    learner.observe(np.eye(2), ["c", "a"])
    with pytest.raises(InputError, match="max_classes"):
        learner.observe(np.ones(2), "typo")
    for wrong in (0, -1, 2.5, True):
        with pytest.raises(InputError, match="max_classes must be"):
            Learner(MLP(2, 1), SGD(), max_classes=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("known", "new", "beyond", "number"),
    [
        ((), "abcd", "d", 4),
        (("a",), "abcde", "d", 4),
        (("a", "b", "c"), "cdd", "d", 4),
        (("a", "b", "c", "d"), "ef", "e", 5),
    ],
)
def test_the_error_names_the_first_label_beyond_max_classes(
    known: tuple[str, ...], new: str, beyond: str, number: int
) -> None:
    with pytest.raises(InputError, match=f"the label '{beyond}' would be class number {number},"):
        Labels(known).with_new(list(new), most=3)


def test_a_thousand_classes_are_allowed_by_default_and_listed_ones_are_not_counted(
    tmp_path: Path,
) -> None:
    learner = Learner(MLP(2, 1), SGD())
    with pytest.raises(InputError, match=r"1000 would be class number 1001, .* at most 1000 "):
        learner.observe(np.ones((1001, 2)), list(range(1001)))
    many = Learner(MLP(2, 1), SGD(), classes=range(1001), max_classes=5)
    many.observe(np.ones(2), 1000)
    few = Learner(MLP(2, 1), SGD(), max_classes=2)
    few.observe(np.eye(2), ["a", "b"])
    few.save(tmp_path / "few")
    with pytest.raises(InputError, match=r"at most 2 \(max_classes"):
        Learner.load(tmp_path / "few", MLP(2, 1)).observe(np.ones(2), "c")
