"""Blurry, long-tailed, imbalanced and recurring streams."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from recollect.errors import InputError
from recollect.streams import (
    Joint,
    TaskStream,
    blurred,
    from_arrays,
    imbalanced,
    long_tailed,
    recurring,
)
from recollect.streams.stream import has_task_il
from recollect.testing import check_stream

X = np.arange(1200, dtype=np.float32).reshape(600, 2)
Y = np.arange(600) % 6


def stream(**more: Any) -> TaskStream:
    return from_arrays(X, Y, **more)


def sizes(made: TaskStream) -> list[int]:
    return torch.bincount(made.train_y[torch.cat(made.train_ids)]).tolist()


@pytest.mark.parametrize("share", [0.1, 0.25, 0.9])
def test_a_share_of_every_task_comes_from_other_tasks(share: float) -> None:
    whole, made = stream(), blurred(stream(), share)
    for task, ids in enumerate(made.train_ids):
        foreign = ~torch.isin(made.train_y[ids], torch.tensor(whole.task_classes(task)))
        assert int(foreign.sum()) == round(share * len(ids))
        assert made.parts(task) == whole.parts(task)
        origins = Counter((made.train_y[ids][foreign] // 2).tolist())
        assert len(origins) == 2, "from all other tasks"
        assert made.task_classes(task)[:2] == whole.task_classes(task)
        assert torch.equal(made.test_ids[task], whole.test_ids[task])
    assert torch.equal(torch.cat(made.train_ids).sort().values, torch.arange(len(made.train_y)))
    assert not has_task_il(made)


def test_blurring_two_tasks_of_unequal_size_swaps_as_many_as_it_can() -> None:
    made = blurred(stream(tasks=[[0, 1, 2, 3, 4], [5]]), 0.5)
    foreign = [int((made.train_y[ids] == 5).sum()) for ids in made.train_ids]
    assert foreign == [40, 40]


def test_the_seed_decides_what_is_swapped() -> None:
    one, same, other = (blurred(stream(), 0.2, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(one.train_ids[0], same.train_ids[0])
    assert not torch.equal(one.train_ids[0], other.train_ids[0])


def test_class_sizes_are_geometric() -> None:
    assert sizes(long_tailed(stream(), 32, seed=None)) == [80, 40, 20, 10, 5, 2]
    made = sizes(long_tailed(stream(), 32, seed=3))
    assert sorted(made, reverse=True) == [80, 40, 20, 10, 5, 2] != made
    assert sizes(long_tailed(stream(), 1)) == [80] * 6


def test_the_tail_follows_the_order_of_the_classes() -> None:
    made = long_tailed(stream(class_order=[5, 4, 3, 2, 1, 0]), 32, seed=None)
    assert sizes(made) == [2, 5, 10, 20, 40, 80]


def test_every_domain_is_long_tailed() -> None:
    made = long_tailed(stream(scenario="domain", task_ids=np.arange(600) // 300), 10, seed=None)
    for ids in made.train_ids:
        found = torch.bincount(made.train_y[ids]).tolist()
        assert (found[0], found[-1]) == (40, 4)


def test_a_share_of_some_classes() -> None:
    assert sizes(imbalanced(stream(), {1: 0.5, 4: 0.001})) == [80, 40, 80, 80, 1, 80]


def test_tasks_come_back_with_other_examples_or_with_all() -> None:
    parts = recurring(stream(), 2)
    assert [parts.task_classes(task) for task in range(6)] == [(0, 1), (2, 3), (4, 5)] * 2
    assert torch.equal(torch.cat(parts.train_ids).sort().values, torch.arange(len(parts.train_y)))
    assert [parts.parts(task) for task in range(6)] == [(80,)] * 6
    again = recurring(stream(), [2, 0, 2], again=True)
    assert [again.parts(task) for task in range(3)] == [(160,)] * 3
    assert torch.equal(again.train_ids[0], again.train_ids[2])
    assert has_task_il(parts), "a task that comes back is one task"


def test_nothing_is_copied() -> None:
    whole = stream()
    for make in (blurred, long_tailed, recurring):
        assert make(whole).train_x is whole.train_x


BUILT: dict[str, Callable[[], TaskStream]] = {
    "blurred": lambda: blurred(stream(), 0.2),
    "long tail": lambda: long_tailed(stream(), 20),
    "recurring": lambda: recurring(stream(), 2),
    "all": lambda: blurred(long_tailed(recurring(stream(), 2), 20), 0.2),
    "all, in the order of the seed": lambda: blurred(
        long_tailed(stream(class_order="seed"), 20), 0.2
    ),
    "rotated, long tail": lambda: long_tailed(
        from_arrays(np.zeros((60, 4, 4), np.uint8), Y[:60], scenario="rotated", tasks=2), 3
    ),
}


@pytest.mark.parametrize("name", BUILT)
def test_they_keep_the_promises_of_a_stream(name: str) -> None:
    made = BUILT[name]()
    check_stream(made)
    check_stream(made.validation(), whole=made)


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "share": (lambda: blurred(stream(), 1.0), "share must be a number from 0 to below 1, not 1.0"),
    "share in words": (lambda: blurred(stream(), "x"), "a number from 0 .* not 'x'"),  # type: ignore[arg-type]
    "seed": (lambda: blurred(stream(), seed="x"), "seed must be a whole"),  # type: ignore[arg-type]
    "one task": (lambda: blurred(stream(tasks=1)), "its tasks all have the same examples"),
    "factor": (lambda: long_tailed(stream(), 0.5), "factor must be a number of at least 1"),
    "factor in words": (
        lambda: long_tailed(stream(), "x"),  # type: ignore[arg-type]
        "factor must be a number of at least 1, not 'x'",
    ),
    "shares": (lambda: imbalanced(stream(), 0.5), "a mapping of classes to"),  # type: ignore[arg-type]
    "share of a class": (lambda: imbalanced(stream(), {1: "x"}), "1: 'x'"),  # type: ignore[dict-item]
    "order": (lambda: recurring(stream(), 1.5), "order=1.5 must be"),  # type: ignore[arg-type]
    "tasks": (lambda: stream(tasks=1.5), "tasks is 1.5: pass the number of tasks, or the classes"),
    "list of tasks": (lambda: stream(tasks=[0, 1]), r"tasks is \[0, 1\]: pass the number"),
    "class order": (lambda: stream(class_order=1.5), "class_order is 1.5: pass 'seed'"),
    "class": (lambda: imbalanced(stream(), {9: 0.5}), "shares has 9: 0.5, but a class of arrays"),
    "no share": (lambda: imbalanced(stream(), {1: 0.0}), "share above 0"),
    "task": (lambda: recurring(stream(), [0, 3]), "a list of tasks from 0 to 2"),
    "arrival": (lambda: recurring(stream(scenario="arrival")), "no tasks to repeat"),
    "other": (lambda: blurred(Joint(stream())), "not a Joint"),  # type: ignore[arg-type]
    "validation": (lambda: stream().validation(1.5), "share must be above 0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_makes_no_sense_is_refused(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(InputError, match=message):
        make()
