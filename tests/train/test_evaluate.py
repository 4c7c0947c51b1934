"""Accuracy: hand-made logits, scored among all classes and among those of a task."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from recollect import SGD, Fleet
from recollect.methods import PNN
from recollect.streams import TaskStream, from_arrays
from recollect.streams.arrays import Scenario
from recollect.train.evaluate import ROWS, accuracy, settings

# Test examples are their own logits; classes 0 and 1 are the first task, 2 and 3 the second.
LOGITS = [
    [9.0, 1.0, 0.0, 0.0],  # class 0: right among all classes
    [2.0, 1.0, 9.0, 0.0],  # class 0: right only within the task
    [8.0, 1.0, 9.0, 0.0],  # class 1: wrong in both
    [0.0, 7.0, 0.0, 0.0],  # class 1: right among all classes
    [0.0, 0.0, 1.0, 2.0],  # class 3: right among all classes
    [5.0, 6.0, 1.0, 2.0],  # class 3: right only within the task
    [5.0, 6.0, 3.0, 2.0],  # class 3: wrong in both
]
LABELS = [0, 0, 1, 1, 3, 3, 3]


def stream_of(scenario: Scenario) -> TaskStream:
    x, y = np.zeros((8, 4), dtype=np.float32), np.arange(8) % 4
    test = (np.array(LOGITS, dtype=np.float32), np.array(LABELS))
    if scenario == "domain":
        task_ids, test_ids = np.arange(8) // 4, np.array([0] * 4 + [1] * 3)
        return from_arrays(
            x, y, scenario=scenario, test=test, task_ids=task_ids, test_task_ids=test_ids
        )
    stream = from_arrays(x, y, scenario=scenario, test=(x, y), tasks=2)
    tested = torch.from_numpy(test[0]), torch.from_numpy(test[1])
    ids = torch.arange(4), torch.arange(4, 7)  # by hand, as a class is not tested
    return replace(stream, test_x=tested[0], test_y=tested[1], test_ids=ids)


def says(*rows: torch.Tensor) -> Fleet:
    """Runs whose logits are the inputs times a matrix each."""
    fleet = Fleet(
        [SGD()] * len(rows), lambda: nn.Linear(4, 4, bias=False), seeds=list(range(len(rows))),
        lr=[0.1] * len(rows), classes=4, shape=(4,),
    )  # fmt: skip
    fleet.weights.named()["weight"].copy_(torch.stack(rows))
    return fleet


def same(found: torch.Tensor, expected: list[list[float]]) -> None:
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


def test_class_and_task_accuracy_of_every_run() -> None:
    swapped = torch.eye(4)[[1, 0, 3, 2]]  # every answer is the other class of its task
    found = accuracy(says(torch.eye(4), swapped), stream_of("class"), range(2))
    assert list(found) == ["class", "task"]
    third = 100 / 3
    expected = [[50.0, third], [0.0, 0.0]]
    same(found["class"], expected)
    same(found["task"], [[75.0, 2 * third], [25.0, third]])


def test_only_the_tasks_asked_for_are_tested() -> None:
    found = accuracy(says(torch.eye(4)), stream_of("class"), [1])
    same(found["task"], [[200 / 3]])


def test_domains_have_one_score_among_all_classes() -> None:
    stream = stream_of("domain")
    assert settings(stream) == ("domain",)
    found = accuracy(says(torch.eye(4)), stream, range(2))
    same(found["domain"], [[50.0, 100 / 3]])


def test_a_method_that_needs_the_task_is_scored_where_it_is_told() -> None:
    assert settings(stream_of("class"), SGD) == ("class", "task")
    assert settings(stream_of("class"), PNN) == ("task",)


@pytest.mark.parametrize("count", [ROWS - 1, ROWS, 2 * ROWS + 7])
def test_large_test_sets_are_scored_in_parts(count: int) -> None:
    generator = np.random.default_rng(count)
    x, y = generator.normal(size=(count, 4)).astype(np.float32), generator.integers(0, 4, count)
    train = np.zeros((4, 4), dtype=np.float32), np.arange(4)
    found = accuracy(says(torch.eye(4)), from_arrays(*train, test=(x, y), tasks=1), [0])
    assert found["class"].item() == pytest.approx(100 * (x.argmax(1) == y).mean(), abs=1e-4)
