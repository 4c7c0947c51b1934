"""A stream from your own arrays."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Literal, TypedDict, cast

import torch
from torch import Tensor

from recollect.core.targets import with_weights
from recollect.core.transforms import Transform
from recollect.errors import InputError, unknown_name
from recollect.streams.augment import Statistics, augmentation
from recollect.streams.checks import Array, Examples, examples
from recollect.streams.class_order import Order, ordered, usable
from recollect.streams.packed import Parts
from recollect.streams.pixels import View
from recollect.streams.splits import check_tested, distinct, split
from recollect.streams.stream import Setting
from recollect.streams.targets import check_scenario, checked_weights, values_of
from recollect.streams.tasks import TaskStream, examples_of

__all__ = ["SCENARIOS", "Options", "Scenario", "from_arrays"]

Scenario = Literal["class", "task", "domain", "arrival", "rotated", "permuted"]
SCENARIOS: dict[str, Setting] = {
    "class": "class",
    "task": "class",
    "domain": "domain",
    "arrival": "general",
    "rotated": "domain",
    "permuted": "domain",
}


class Options(TypedDict, total=False):
    """What all functions that make a stream of one's own data take; see `from_arrays`."""

    scenario: Scenario
    tasks: int | Sequence[Sequence[int]] | None
    class_order: Order | None
    classes: int | None
    crop: int
    flip: bool
    normalise: bool | Statistics
    transform: Transform | None
    replay_transform: Transform | None


def from_arrays(
    x: Array | Parts,
    y: Array,
    *,
    scenario: Scenario = "class",
    test: tuple[Array | Parts, Array] | None = None,
    tasks: int | Sequence[Sequence[int]] | None = None,
    class_order: Order | None = None,
    task_ids: Array | None = None,
    test_task_ids: Array | None = None,
    classes: int | None = None,
    crop: int = 0,
    flip: bool = False,
    normalise: bool | Statistics = False,
    transform: Transform | None = None,
    replay_transform: Transform | None = None,
    name: str = "arrays",
    target: str = "class",
    weights: Array | None = None,
) -> TaskStream:
    """Make a stream of your own examples, to train and score any method on.

    Args:
        x: Examples, `[N, ...]`, uint8 (images, 0 to 255) or floating point (stored as float32).
            A mapping or tuple of arrays, if an example has several: the network gets them as
            keyword or positional arguments. There, whole numbers and booleans stay as they are.
        y: Labels, `[N]`, integers from 0. If they begin later, outputs stay unused, and a warning
            says so unless `classes` is given.
        scenario: What a task is. `class`: some of the classes. `task`: the examples with one of
            `task_ids`, scored over the classes of the task as well if no other task has them.
            `domain`: the same, with every class in every task. `rotated`, `permuted`: all examples,
            with an angle or a permutation of the pixels that depends on seed and task. `arrival`:
            there are none; examples come in the order given.
        test: Examples and labels to score on; without them a fifth of every class is held out.
        tasks: For `class`: how many tasks, or the classes of each. Without it, two classes a task.
            For `rotated` and `permuted`: how many.
        class_order: For `class`: the order in which classes come, as a list; a number, for a random
            order that is the same in all runs; or `"seed"`, another order for every seed. Then
            every class gives as many examples as the smallest, and the first class of an order
            is shown as class 0, the next as class 1, and so on.
        task_ids: For `task` and `domain`: the task of each example; tasks come in sorted order.
        test_task_ids: The same for `test`.
        classes: The size of the head; without it, just enough for the highest label.
        crop: In training, images are padded by so many pixels and cropped at random.
        flip: Whether half of the images are flipped in training, left to right.
        normalise: Whether images are normalised by the mean and standard deviation of each channel
            of the training set, or by a pair of your own, (mean, std), of numbers from 0 to 1.
        transform: A function that changes a batch `[n, ...]` which is learned, with torch's
            generator seeded for each run and step (numpy's is not: its numbers would differ from
            call to call). It must keep the shape. What is stored or tested is not changed.
        replay_transform: The same for a batch that is replayed; without it, that is not changed.
        name: What to call the stream.
        target: What y is. `class`: the number of a class. `regression`: a value, or several,
            `[N, D]`. `labels`: a 1 for every label that an example has, `[N, C]`. The latter two
            have no scenario `class`.
        weights: A weight above 0 for every example of x, `[N]`, by which its loss is multiplied.

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
    check_scenario(target, scenario)
    plain = target == "class"
    values = None if plain else lambda y, name, size: values_of(y, target, name, size)
    train = examples(x, y, task_ids, values=values)
    if weights is not None:
        train = train._replace(weights=checked_weights(weights, len(train.y)))
    if test is None:
        train, tested = split(train)
    else:
        tested = examples(*test, test_task_ids, like=train, values=values)
    highest = int(torch.cat([train.y, tested.y]).max()) if plain else train.y.shape[1] - 1
    head = highest + 1 if classes is None else classes
    if highest >= head:
        raise InputError(
            f"label {highest} is outside the head of {classes} classes: labels go from 0 to "
            f"{head - 1}, so correct y or pass classes={highest + 1}"
        )
    if class_order is not None and scenario != "class":
        raise InputError(f"class_order is for scenario 'class', not {scenario!r}: leave it out")

    view: View = "plain"
    if scenario == "class":
        groups = _class_groups(distinct(train.y), tasks, class_order)
        train_ids = tuple(examples_of(train.y, group) for group in groups)
        test_ids = tuple(examples_of(tested.y, group) for group in groups)
        if class_order == "seed":
            view = "reordered"
    elif scenario in ("rotated", "permuted"):
        view = cast(View, scenario)
        count = _view_tasks(view, train, tasks)
        train_ids = (torch.arange(len(train.y)),) * count
        test_ids = (torch.arange(len(tested.y)),) * count
        groups = [tuple(range(head))] * count
    else:
        numbers = distinct(train.task)
        if tasks not in (None, len(numbers)):
            raise InputError(
                f"tasks={tasks} does not fit: the examples form {len(numbers)} tasks in scenario "
                f"{scenario!r}, so leave it out"
            )
        train_ids = tuple(examples_of(train.task, [number]) for number in numbers)
        test_ids = tuple(examples_of(tested.task, [number]) for number in numbers)
        found = [tuple(distinct(train.y[ids])) if plain else () for ids in train_ids]
        groups = found if scenario == "task" else [tuple(range(head))] * len(found)
    if not plain:
        groups = [tuple(range(head))] * len(groups)
    exact = scenario in ("class", "task") and view != "reordered"
    check_tested(tested, groups, test_ids, exact, plain)
    if view == "reordered":
        _check_reordered(train.y, tested.y)
        train_ids, test_ids = (
            tuple(ids[usable(labels)[ids]] for ids in found)
            for labels, found in ((train.y, train_ids), (tested.y, test_ids))
        )
    if plain and classes is None and (lowest := int(train.y.min())):
        warnings.warn(
            f"the lowest label is {lowest}, so {lowest} of {head} outputs are never used: subtract "
            f"it from the labels, or pass classes={head} if it is meant",
            stacklevel=2,
        )
    return TaskStream(
        name=name,
        setting=SCENARIOS[scenario] if plain else cast(Setting, target),
        classes=head,
        train_x=train.x,
        train_y=train.y if train.weights is None else with_weights(train.y, train.weights),
        test_x=tested.x,
        test_y=tested.y,
        train_ids=train_ids,
        test_ids=test_ids,
        classes_of=tuple(groups),
        view=view,
        shuffle=scenario != "arrival",
        boundaries=scenario != "arrival",
        images=augmentation(
            train.x, crop, flip, normalise, transform, replay_transform, train.packing
        ),
        packing=train.packing,
    )


def _view_tasks(view: View, train: Examples, tasks: int | Sequence[Sequence[int]] | None) -> int:
    """How many tasks a stream of rotated or permuted examples has."""
    if not isinstance(tasks, int) or tasks < 1:
        raise InputError(f"scenario {view!r} needs tasks=, how many there are: a number from 1 on")
    if train.packing is not None:
        raise InputError(f"examples of several tensors cannot be {view}: choose another scenario")
    x = train.x
    if x.dim() > 4 or x.dim() < (3 if view == "rotated" else 2):
        raise InputError(
            f"x has the shape {list(x.shape)}: to be {view}, examples must be images, [N, C, H, W] "
            f"or grey [N, H, W]{', or vectors' if view == 'permuted' else ''}"
        )
    return tasks


def _check_reordered(train_y: Tensor, test_y: Tensor) -> None:
    """Refuse a test set that lacks a class, as any may be the first."""
    if missing := sorted(set(distinct(train_y)) - set(distinct(test_y))):
        raise InputError(
            f"class_order='seed' needs test examples of every class, and there are none of the "
            f"classes {missing}"
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
    labels: list[int], tasks: int | Sequence[Sequence[int]] | None, order: Order | None
) -> list[tuple[int, ...]]:
    """The classes of each task, from how many tasks there are or as they were given."""
    labels = ordered(labels, order)
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
    if order not in (None, "seed"):
        raise InputError("tasks= names the classes of each task: leave class_order out")
    groups = [tuple(int(label) for label in group) for group in tasks]
    if sorted(label for group in groups for label in group) != labels or not all(groups):
        raise InputError(
            f"tasks={[list(group) for group in groups]} must name every class of the training "
            f"examples exactly once, with no task empty; the classes are {labels}"
        )
    return groups
