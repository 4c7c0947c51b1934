"""Your own arrays: what becomes of them, and every refusal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from recollect.errors import InputError
from recollect.streams.arrays import from_arrays

SEEDS = torch.tensor([3, 1])
X = np.arange(120, dtype=np.float64).reshape(60, 2)
Y = np.arange(60) % 6
TASKS = np.arange(60) // 20 * 5  # tasks 0, 5 and 10


def with_value(value: float) -> Any:
    x = X.copy()
    x[7, 1] = value
    return x


def test_classes_are_split_in_order_two_a_task() -> None:
    stream = from_arrays(X, Y)
    assert (stream.setting, stream.tasks, stream.classes) == ("class", 3, 6)
    assert [stream.task_classes(task) for task in range(3)] == [(0, 1), (2, 3), (4, 5)]
    assert stream.parts(1) == (16,)
    batch = stream.pick(SEEDS, 1, stream.order(SEEDS, 1, 0, 0, 16))
    assert set(batch.y.flatten().tolist()) == {2, 3}
    assert torch.equal(batch.y, (batch.x[..., 0] / 2 % 6).long())


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        (2, [(0, 1, 2), (3, 4, 5)]),
        (6, [(0,), (1,), (2,), (3,), (4,), (5,)]),
        ([[5, 0], [1, 2, 3, 4]], [(5, 0), (1, 2, 3, 4)]),
    ],
)
def test_tasks_may_be_a_number_or_the_classes(tasks: Any, expected: list[tuple[int, ...]]) -> None:
    stream = from_arrays(X, Y, tasks=tasks)
    assert [stream.task_classes(task) for task in range(stream.tasks)] == expected


def test_labels_may_have_gaps() -> None:
    stream = from_arrays(X, Y * 3)
    assert stream.classes == 16
    assert stream.task_classes(2) == (12, 15)


def test_a_fifth_of_each_class_is_held_out_once_and_for_all() -> None:
    stream, again = from_arrays(X, Y), from_arrays(torch.tensor(X), torch.tensor(Y))
    assert torch.bincount(stream.test_y).tolist() == [2] * 6
    assert torch.bincount(stream.train_y).tolist() == [8] * 6
    assert sorted(torch.cat([stream.train_x, stream.test_x])[:, 0].tolist()) == X[:, 0].tolist()
    assert torch.equal(stream.test_x, again.test_x)
    assert torch.equal(stream.train_y, again.train_y)


def test_arrival_keeps_the_order_and_has_no_boundaries() -> None:
    stream = from_arrays(X, Y, scenario="arrival")
    assert (stream.setting, stream.boundaries, stream.tasks) == ("general", False, 1)
    assert stream.parts(0) == (48,)
    first = stream.pick(SEEDS, 0, stream.order(SEEDS, 0, 0, 0, 48)).x[..., 0]
    assert torch.equal(first, first.sort().values)
    assert torch.equal(stream.test_x[:, 0], stream.test_x[:, 0].sort().values)
    assert stream.task_classes(0) == tuple(range(6))


@pytest.mark.parametrize("scenario", ["task", "domain"])
def test_task_ids_make_the_tasks(scenario: Any) -> None:
    stream = from_arrays(X, Y, scenario=scenario, task_ids=TASKS)
    assert stream.tasks == 3
    assert stream.setting == ("class" if scenario == "task" else "domain")
    for task in range(3):
        (size,) = stream.parts(task)
        batch = stream.pick(SEEDS, task, stream.order(SEEDS, task, 0, 0, size))
        assert set((batch.x[..., 0] // 40).flatten().tolist()) == {task}
        assert set((stream.test(SEEDS, task).x[..., 0] // 40).flatten().tolist()) == {task}


def test_task_scores_a_tasks_own_classes_and_domain_all() -> None:
    labels = np.arange(60) // 10
    own = from_arrays(X, labels, scenario="task", task_ids=TASKS)
    assert [own.task_classes(task) for task in range(3)] == [(0, 1), (2, 3), (4, 5)]
    shared = from_arrays(X, labels, scenario="domain", task_ids=TASKS, classes=7)
    assert shared.task_classes(1) == tuple(range(7))


def test_a_test_set_is_used_as_given() -> None:
    stream = from_arrays(
        X, Y, scenario="domain", task_ids=TASKS,
        test=(X[:6], Y[:6]), test_task_ids=np.array([10, 0, 5, 5, 0, 10]),
    )  # fmt: skip
    assert stream.parts(0) == (20,)
    assert stream.test(SEEDS, 2).x[0].tolist() == X[[0, 5]].tolist()
    assert stream.test(SEEDS, 2).y.tolist() == [[0, 5]]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (np.uint8, torch.uint8),
        (np.float16, torch.float32),
        (np.float32, torch.float32),
        (np.float64, torch.float32),
        (">f8", torch.float32),
    ],
)
def test_bytes_stay_bytes_and_floats_become_float32(given: Any, kept: torch.dtype) -> None:
    stream = from_arrays(X.astype(given), Y.astype(np.int16))
    assert stream.dtype == stream.train_x.dtype == kept
    assert stream.train_y.dtype == torch.int64
    assert stream.train_x.max() > 100


def test_images_keep_their_shape() -> None:
    assert from_arrays(np.zeros((60, 3, 4, 5), np.uint8), Y).shape == (3, 4, 5)


def test_later_changes_of_the_arrays_change_nothing() -> None:
    x, y = torch.ones(60, 2), torch.tensor(Y)
    stream = from_arrays(x, y, scenario="arrival", test=(x, y))
    x.zero_()
    y.zero_()
    assert stream.train_x.min() == stream.test_x.min() == 1
    assert stream.train_y.max() == stream.test_y.max() == 5


def test_arrays_that_cannot_be_written_to_are_fine() -> None:
    x = X.copy()
    x.flags.writeable = False
    assert from_arrays(x, Y).tasks == 3


REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "nan": ({"x": with_value(np.nan)}, "NaN or infinite .* first being example 7"),
    "inf": ({"x": with_value(-np.inf)}, "NaN or infinite"),
    "too large": ({"x": with_value(1e300)}, "NaN or infinite"),
    "nan in a tensor": ({"x": torch.tensor(with_value(np.nan))}, "NaN or infinite"),
    "length": ({"y": Y[:59]}, r"y has the shape \[59\], but one .* each of the 60 examples"),
    "columns of labels": ({"y": Y[:, None]}, r"y has the shape \[60, 1\]"),
    "one dimension": ({"x": X[:, 0]}, "x needs two dimensions or more"),
    "no dimension": ({"x": np.array(1.0)}, "x needs two dimensions or more"),
    "empty": ({"x": X[:0], "y": Y[:0]}, r"x is empty \(shape \[0, 2\]\)"),
    "empty examples": ({"x": X[:, :0]}, r"x is empty \(shape \[60, 0\]\)"),
    "integer x": ({"x": X.astype(np.int32)}, "x holds .*int.* uint8 or floating-point"),
    "a list": ({"x": X.tolist()}, "x is a list, but a numpy array or a torch tensor"),
    "text": ({"x": X.astype(str)}, "x holds .* but numbers are expected"),
    "float labels": ({"y": Y.astype(float)}, "y holds float64, but integers .* y.astype.int."),
    "boolean labels": ({"y": Y > 2}, "y holds bool, but integers are expected"),
    "labels as a tensor": ({"y": torch.tensor(Y) / 2}, r"torch.float32, but integers .* y.long"),
    "words as labels": ({"y": Y.astype(str)}, "y holds .* np.unique.y, return_inverse=True"),
    "one-hot labels": ({"y": np.eye(6)[Y]}, r"y has the shape \[60, 6\], but one number"),
    "negative labels": ({"y": Y - 1}, "y has the negative label -1"),
    "outside the head": ({"classes": 5}, "label 5 is outside the head of 5 classes"),
    "test outside": (
        {"test": (X[:6], Y[:6] + 3), "classes": 6},
        "label 8 is outside the head of 6 classes",
    ),
    "test shape": ({"test": (X[:, :1], Y)}, r"test example has the shape \[1\], but .* \[2\]"),
    "test type": ({"test": (X.astype(np.uint8), Y)}, "test x holds torch.uint8, but x holds"),
    "test nan": ({"test": (with_value(np.nan), Y)}, "test x has NaN"),
    "test length": ({"test": (X, Y[1:])}, r"test y has the shape \[59\]"),
    "test no pair": ({"test": X}, "test must be a pair"),
    "test of an unknown class": ({"test": (X, Y + 1)}, "10 test examples belong to no task"),
    "task untested": ({"test": (X[:2], Y[:2])}, "task 1 has no test example"),
    "too few to hold out": ({"x": X[:6], "y": Y[:6]}, "task 0 has no test example"),
    "unknown scenario": ({"scenario": "clas"}, "unknown scenario 'clas': did you mean 'class'"),
    "odd classes": ({"y": Y % 5}, "5 classes cannot be split into tasks of two"),
    "one class": ({"y": Y * 0}, "1 classes cannot be split into tasks of two"),
    "not divisible": ({"tasks": 4}, "6 classes cannot be split into 4 equal tasks"),
    "no tasks": ({"tasks": 0}, "6 classes cannot be split into 0 equal tasks"),
    "class missing": ({"tasks": [[0, 1], [2, 3]]}, "must name every class"),
    "class twice": ({"tasks": [[0, 1, 2], [2, 3, 4, 5]]}, "must name every class"),
    "task without classes": ({"tasks": [[0, 1, 2, 3, 4, 5], []]}, "no task empty"),
    "ids missing": ({"scenario": "domain"}, "scenario 'domain' needs task_ids"),
    "task ids missing": ({"scenario": "task"}, "scenario 'task' needs task_ids"),
    "ids not wanted": ({"task_ids": TASKS}, "scenario 'class' takes no task_ids"),
    "ids of the wrong length": (
        {"scenario": "domain", "task_ids": TASKS[1:]},
        r"task_ids has the shape \[59\]",
    ),
    "ids not integers": (
        {"scenario": "task", "task_ids": TASKS / 2},
        "task_ids holds float64, but integers",
    ),
    "tasks beside ids": (
        {"scenario": "domain", "task_ids": TASKS, "tasks": 4},
        "tasks=4 does not fit: the examples form 3 tasks",
    ),
    "test ids missing": (
        {"scenario": "domain", "task_ids": TASKS, "test": (X, Y)},
        "needs test_task_ids",
    ),
    "test ids without a test": (
        {"scenario": "domain", "task_ids": TASKS, "test_task_ids": TASKS},
        "test_task_ids were given without test",
    ),
    "test of an unknown task": (
        {"scenario": "domain", "task_ids": TASKS, "test": (X, Y), "test_task_ids": TASKS + 5},
        "20 test examples belong to no task",
    ),
    "test of another task's class": (
        {
            "y": np.arange(60) // 10,
            "scenario": "task",
            "task_ids": TASKS,
            "test": (X, np.arange(60) // 10),
            "test_task_ids": np.roll(TASKS, 20),
        },
        r"task 0 is tested on the classes \[2, 3\]",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_cannot_be_used_is_refused_in_a_sentence(case: str) -> None:
    given, message = REFUSALS[case]
    arguments: dict[str, Any] = {"x": X, "y": Y, **given}
    with pytest.raises(InputError, match=message) as caught:
        from_arrays(**arguments)
    assert "\n" not in str(caught.value)
