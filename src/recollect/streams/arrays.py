"""A stream from your own arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from recollect.core.random import Purpose, bits, permute
from recollect.errors import InputError, unknown_name
from recollect.streams.checks import Array, Examples, check_alike, check_head, examples
from recollect.streams.stream import Setting
from recollect.streams.tasks import TaskStream, examples_of

__all__ = ["SCENARIOS", "Scenario", "from_arrays"]

Scenario = Literal["class", "task", "domain", "arrival"]
SCENARIOS: dict[str, Setting] = {
    "class": "class",
    "task": "class",
    "domain": "domain",
    "arrival": "general",
}


def from_arrays(
    x: Array,
    y: Array,
    *,
    scenario: Scenario = "class",
    test: tuple[Array, Array] | None = None,
    tasks: int | Sequence[Sequence[int]] | None = None,
    task_ids: Array | None = None,
    test_task_ids: Array | None = None,
    classes: int | None = None,
    name: str = "arrays",
) -> TaskStream:
    """Make a stream of your own examples, to train and score any method on.

    Args:
        x: Examples, `[N, ...]`, uint8 (images, 0 to 255) or floating point (stored as float32).
        y: Labels, `[N]`, integers from 0.
        scenario: What a task is. `class`: some of the classes. `task`: the examples with one of
            `task_ids`, scored over the classes of the task as well. `domain`: the same, with every
            class in every task. `arrival`: there are none; examples come in the order given.
        test: Examples and labels to score on; without them a fifth of every class is held out.
        tasks: For `class`: how many tasks, or the classes of each. Without it, two classes a task.
        task_ids: For `task` and `domain`: the task of each example; tasks come in sorted order.
        test_task_ids: The same for `test`.
        classes: The size of the head; without it, just enough for the highest label.
        name: What to call the stream.

    >>> import numpy as np
    >>> x, y = np.random.default_rng(0).random((100, 5)), np.arange(100) % 4
    >>> stream = from_arrays(x, y, tasks=[[3, 0], [1, 2]])
    >>> stream.tasks, stream.task_classes(0), stream.parts(0), stream.dtype
    (2, (3, 0), (40,), torch.float32)
    """
    if scenario not in SCENARIOS:
        raise unknown_name("scenario", scenario, SCENARIOS)
    if test is not None and (not isinstance(test, tuple | list) or len(test) != 2):
        raise InputError("test must be a pair: test=(x_test, y_test)")
    _check_task_ids(scenario, test is not None, task_ids, test_task_ids)
    train = examples(x, y, task_ids)
    if test is None:
        train, held_out = _hold_out(train)
    else:
        held_out = examples(*test, test_task_ids, test=True)
        check_alike(train, held_out)
    head = check_head(classes, int(torch.cat([train.y, held_out.y]).max()))

    if scenario == "class":
        groups = _class_groups(_distinct(train.y), tasks)
        train_ids = tuple(examples_of(train.y, group) for group in groups)
        test_ids = tuple(examples_of(held_out.y, group) for group in groups)
    else:
        numbers = _distinct(train.task)
        if tasks not in (None, len(numbers)):
            raise InputError(
                f"tasks={tasks} does not fit: the examples form {len(numbers)} tasks in scenario "
                f"{scenario!r}, so leave it out"
            )
        train_ids = tuple(examples_of(train.task, [number]) for number in numbers)
        test_ids = tuple(examples_of(held_out.task, [number]) for number in numbers)
        found = [tuple(_distinct(train.y[ids])) for ids in train_ids]
        groups = found if scenario == "task" else [tuple(range(head))] * len(found)
    _check_tested(held_out, groups, test_ids)
    return TaskStream(
        name=name,
        setting=SCENARIOS[scenario],
        classes=head,
        train_x=train.x,
        train_y=train.y,
        test_x=held_out.x,
        test_y=held_out.y,
        train_ids=train_ids,
        test_ids=test_ids,
        classes_of=tuple(groups),
        shuffle=scenario != "arrival",
        boundaries=scenario != "arrival",
    )


def _check_task_ids(
    scenario: str, has_test: bool, task_ids: Array | None, test_task_ids: Array | None
) -> None:
    """Refuse task numbers that are missing or would be ignored."""
    needed = scenario in ("task", "domain")
    if needed and task_ids is None:
        raise InputError(f"scenario {scenario!r} needs task_ids, the task of each example")
    if needed and has_test and test_task_ids is None:
        raise InputError(
            f"scenario {scenario!r} needs test_task_ids, the task of each test example"
        )
    if not needed and (task_ids is not None or test_task_ids is not None):
        raise InputError(
            f"scenario {scenario!r} takes no task_ids: choose 'task' or 'domain', or leave them out"
        )
    if test_task_ids is not None and not has_test:
        raise InputError("test_task_ids were given without test: pass test=(x_test, y_test)")


def _class_groups(
    labels: list[int], tasks: int | Sequence[Sequence[int]] | None
) -> list[tuple[int, ...]]:
    """The classes of each task, from how many tasks there are or as they were given."""
    if tasks is None or isinstance(tasks, int):
        count = len(labels) // 2 if tasks is None else tasks
        if count < 1 or len(labels) % count or (tasks is None and len(labels) % 2):
            wanted = "tasks of two" if tasks is None else f"{tasks} equal tasks"
            raise InputError(
                f"{len(labels)} classes cannot be split into {wanted}: pass tasks=, a number that "
                "divides them or the classes of each task"
            )
        size = len(labels) // count
        return [tuple(labels[i : i + size]) for i in range(0, len(labels), size)]
    groups = [tuple(int(label) for label in group) for group in tasks]
    if sorted(label for group in groups for label in group) != labels or not all(groups):
        raise InputError(
            f"tasks={[list(group) for group in groups]} must name every class of the training "
            f"examples exactly once, with no task empty; the classes are {labels}"
        )
    return groups


def _distinct(values: Tensor) -> list[int]:
    return sorted(set(values.tolist()))


def _hold_out(everything: Examples) -> tuple[Examples, Examples]:
    """Training examples and a fifth of each class of each task to score on, both in order."""
    held = torch.zeros(len(everything.y), dtype=torch.bool)
    pairs = sorted(set(zip(everything.task.tolist(), everything.y.tolist(), strict=True)))
    for pair, (task, label) in enumerate(pairs):
        members = ((everything.task == task) & (everything.y == label)).nonzero().flatten()
        count = len(members)
        share = min(max(1, (count + 2) // 5), count - 1)
        key = bits(torch.tensor([0]), Purpose.SPLIT, pair)
        held[members[permute(key, torch.arange(share), count)]] = True

    def those(chosen: Tensor) -> Examples:
        return Examples(*(tensor[chosen] for tensor in everything))

    return those(~held), those(held)


def _check_tested(
    test: Examples, groups: Sequence[tuple[int, ...]], test_ids: Sequence[Tensor]
) -> None:
    """Refuse a test set with examples of no task, or a task without test examples."""
    tested = sum(len(ids) for ids in test_ids)
    if tested < len(test.y):
        raise InputError(
            f"{len(test.y) - tested} test examples belong to no task that is trained: remove them, "
            "or add training examples of their class or task"
        )
    for task, (group, ids) in enumerate(zip(groups, test_ids, strict=True)):
        if not len(ids):
            raise InputError(f"task {task} has no test example: pass test= with some of each task")
        unknown = sorted(set(test.y[ids].tolist()) - set(group))
        if unknown:
            raise InputError(
                f"task {task} is tested on the classes {unknown}, of which it has no training "
                "example: remove those test examples"
            )
