"""The examples of a custom stream: arrays as tensors, split into training and test sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from recollect.core.packing import Packing
from recollect.errors import InputError
from recollect.streams.checks import Array, Parts, inputs_of, integers_of, labels_of, packed
from recollect.streams.data.dataset import held_out


class Examples(NamedTuple):
    """Validated examples: x `[N, *shape]` uint8 or float32, y `[N]` or `[N, C]`, tasks `[N]`.

    For examples of several tensors, x contains packed rows.
    """

    x: Tensor
    y: Tensor
    task: Tensor
    packing: Packing | None = None
    weights: Tensor | None = None

    def rows(self, chosen: Tensor) -> Examples:
        """Return a subset of the examples."""
        weights = None if self.weights is None else self.weights[chosen]
        x, y, task = (tensor[chosen] for tensor in (self.x, self.y, self.task))
        return Examples(x, y, task, self.packing, weights)


def examples(
    x: Array | Parts,
    y: Array,
    task_ids: Array | None,
    *,
    like: Examples | None = None,
    values: Callable[[Array, str, int], Tensor] | None = None,
) -> Examples:
    """Validate and copy arrays; test examples must have the shape and type of `like`.

    y are class labels, or targets that `values` converts.
    """
    prefix = "" if like is None else "test "
    packing: Packing | None = None
    if isinstance(x, Mapping | tuple):
        packing, inputs = packed(x, f"{prefix}x", like and like.packing)
    else:
        inputs = inputs_of(x, f"{prefix}x")
    labels = (values or labels_of)(y, f"{prefix}y", len(inputs))
    task = torch.zeros(len(inputs), dtype=torch.int64)
    if task_ids is not None:
        task = integers_of(task_ids, "task_ids" if like is None else "test_task_ids", len(inputs))
    if like is not None and inputs.shape[1:] != like.x.shape[1:]:
        raise InputError(
            f"a test example has the shape {list(inputs.shape[1:])}, but a training example has "
            f"{list(like.x.shape[1:])}: they must be alike"
        )
    if like is not None and inputs.dtype != like.x.dtype:
        raise InputError(
            f"test x holds {inputs.dtype}, but x holds {like.x.dtype}: they must be alike"
        )
    if like is not None and labels.shape[1:] != like.y.shape[1:]:
        raise InputError(
            f"test y has {labels.shape[1]} columns, and y has {like.y.shape[1]}: they must be alike"
        )
    return Examples(inputs, labels, task, packing)


def distinct(values: Tensor) -> list[int]:
    """Return the unique values, sorted."""
    return sorted(set(values.tolist()))


def split(everything: Examples) -> tuple[Examples, Examples]:
    """Hold out a fifth of each class of each task for testing; both parts stay in order."""
    classes = everything.y if everything.y.dim() == 1 else torch.zeros_like(everything.task)
    pairs = torch.stack([everything.task, classes])
    held = held_out(torch.unique(pairs, dim=1, return_inverse=True)[1])
    return everything.rows(~held), everything.rows(held)


def check_tested(
    test: Examples,
    groups: Sequence[tuple[int, ...]],
    test_ids: Sequence[Tensor],
    exact: bool,
    plain: bool,
) -> None:
    """Refuse test examples that belong to no task, and tasks without test examples.

    With `exact` groups, every class of a task must have test examples.
    """
    tested = sum(len(ids) for ids in test_ids)
    if tested < len(test.y):
        raise InputError(
            f"{len(test.y) - tested} test examples belong to no task that is trained: remove them, "
            "or add training examples of their class or task"
        )
    for task, (group, ids) in enumerate(zip(groups, test_ids, strict=True)):
        if not len(ids):
            raise InputError(f"task {task} has no test example: pass test= with some of each task")
        if not plain:
            continue
        tested_on = set(test.y[ids].tolist())
        unknown = sorted(tested_on - set(group))
        if unknown:
            raise InputError(
                f"task {task} is tested on the classes {unknown}, of which it has no training "
                "example: remove those test examples"
            )
        if exact and (missing := sorted(set(group) - tested_on)):
            raise InputError(
                f"there are no test examples of the classes {missing} in task {task}, so accuracy "
                f"would leave them out: pass test= with some of each class"
            )
