"""Create a stream from arrays."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Literal, TypedDict, cast

import torch
from torch import Tensor

from recollect.core.targets import CLASS, target_named, with_weights
from recollect.core.transforms import Transform
from recollect.errors import InputError, unknown_name
from recollect.streams.augment import Statistics, augmentation, check_channels_first
from recollect.streams.checks import Array, Parts, checked_weights, values_of
from recollect.streams.class_order import Order, class_groups
from recollect.streams.pixels import View
from recollect.streams.splits import Examples, check_tested, distinct, examples, split
from recollect.streams.stream import Setting
from recollect.streams.tasks import TaskStream, examples_of, reordered

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
    """Keyword arguments common to `from_arrays`, `from_dataset` and `from_folder`."""

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
    """Create a stream from arrays, to train and evaluate any method on.

    Args:
        x: Examples `[N, ...]`, uint8 (images, 0 to 255) or floating point (stored as float32). For
            inputs of several tensors, a mapping or tuple of arrays, which the network gets as
            keyword or positional arguments; these may also be integers and booleans.
        y: Labels `[N]`, integers from 0. If the lowest label is above 0, some outputs are never
            used, and a warning says so unless `classes` is given.
        scenario: Definition of a task. `class`: a subset of the classes. `task`: the examples with
            the same entry in `task_ids`, also scored in Task-IL if tasks do not share classes.
            `domain`: the same, with every class in every task. `rotated`, `permuted`: all examples,
            with a rotation or pixel permutation that depends on seed and task. `arrival`: no
            tasks; examples arrive in the given order.
        test: Test examples and labels. By default a fifth of each class is held out.
        tasks: For `class`: the number of tasks, or the classes of each task (default: two classes
            per task). For `rotated` and `permuted`: the number of tasks.
        class_order: For `class`: a list of the classes in order; an integer, for a random order
            shared by all runs; or `"seed"`, for a random order per seed. With `"seed"`, all classes
            are cut to the size of the smallest, and classes are renumbered: the first class of an
            order becomes class 0, the next class 1, and so on.
        task_ids: For `task` and `domain`: the task of each example; tasks are sorted.
        test_task_ids: The task of each test example.
        classes: Number of network outputs (default: the highest label + 1).
        crop: Number of pixels by which training images are padded before random cropping.
        flip: If True, flip half of the training images horizontally.
        normalise: If True, normalise images with the mean and standard deviation of each channel
            of the training set; or a pair (mean, std) of numbers from 0 to 1.
        transform: Function that augments an incoming batch `[n, ...]` and preserves its shape.
            PyTorch's random generator is seeded for each run and step (NumPy's is not). Stored
            examples and test examples are not transformed.
        replay_transform: Function that augments a replayed batch (default: no transform).
        name: Name of the stream.
        target: Type of y. `class`: class labels. `regression`: values `[N]` or `[N, D]`. `labels`:
            binary indicators of several labels, `[N, C]`. The last two do not support the
            scenario `class`.
        weights: Positive weights `[N]` of the training examples, which multiply their losses.

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
    plain = target_named(target) is CLASS
    if not plain and scenario == "class":
        raise InputError(
            f"scenario {scenario!r} gives every task some of the classes, and the target "
            f"{target!r} has none: choose 'domain' with task_ids, or 'arrival'"
        )
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
        raise InputError(f"class_order applies to scenario 'class', not {scenario!r}: omit it")

    view: View = "plain"
    if scenario == "class":
        groups = class_groups(distinct(train.y), tasks, class_order)
        train_ids = tuple(examples_of(train.y, group) for group in groups)
        test_ids = tuple(examples_of(tested.y, group) for group in groups)
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
    per_seed = class_order == "seed"
    exact = scenario in ("class", "task") and not per_seed
    check_tested(tested, groups, test_ids, exact, plain)
    if per_seed:
        _check_reordered(train.y, tested.y)
    if plain and classes is None and (lowest := int(train.y.min())):
        warnings.warn(
            f"the lowest label is {lowest}, so {lowest} of {head} outputs are never used: subtract "
            f"it from the labels, or pass classes={head} if this is intended",
            stacklevel=2,
        )
    stream = TaskStream(
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
    return reordered(stream) if per_seed else stream


def _view_tasks(view: View, train: Examples, tasks: int | Sequence[Sequence[int]] | None) -> int:
    """Return the number of tasks of a stream of rotated or permuted examples."""
    if not isinstance(tasks, int) or tasks < 1:
        raise InputError(f"scenario {view!r} needs tasks=, the number of tasks (at least 1)")
    if train.packing is not None:
        raise InputError(f"examples of several tensors cannot be {view}: choose another scenario")
    x = train.x
    if x.dim() > 4 or x.dim() < (3 if view == "rotated" else 2):
        raise InputError(
            f"x has the shape {list(x.shape)}: to be {view}, examples must be images, [N, C, H, W] "
            f"or grey [N, H, W]{', or vectors' if view == 'permuted' else ''}"
        )
    if view == "rotated":
        check_channels_first(x)
    return tasks


def _check_reordered(train_y: Tensor, test_y: Tensor) -> None:
    """Refuse a test set that lacks a class, as any class may come first."""
    if missing := sorted(set(distinct(train_y)) - set(distinct(test_y))):
        raise InputError(
            f"class_order='seed' needs test examples of every class, and there are none of the "
            f"classes {missing}"
        )


def _check_task_ids(
    scenario: str, has_test: bool, task_ids: Array | None, test_task_ids: Array | None
) -> None:
    """Refuse task ids that are missing or would be ignored."""
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
