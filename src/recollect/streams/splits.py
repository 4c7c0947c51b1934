"""Split arrays into training and test examples, and validate test sets."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from recollect.errors import InputError
from recollect.streams.checks import Examples
from recollect.streams.data.dataset import held_out

__all__ = ["check_tested", "distinct", "split"]


def distinct(values: Tensor) -> list[int]:
    """Return the unique values, sorted."""
    return sorted(set(values.tolist()))


def split(everything: Examples) -> tuple[Examples, ...]:
    """Hold out a fifth of each class of each task for testing; both parts stay in order."""
    classes = everything.y if everything.y.dim() == 1 else torch.zeros_like(everything.task)
    pairs = torch.stack([everything.task, classes])
    held = held_out(torch.unique(pairs, dim=1, return_inverse=True)[1])
    parts = []
    for those in (~held, held):
        parts.append(everything.rows(those))
    return tuple(parts)


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
