"""Order in which classes arrive: given, random, or random per seed."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Literal, final

import torch
from torch import Tensor

from recollect.core.random import Purpose, bits, permute
from recollect.errors import InputError
from recollect.streams.stream import Copies, take

Order = Literal["seed"] | int | Sequence[int]


def ordered(labels: list[int], order: Order | str | None) -> list[int]:
    """Return the labels in a given order, or in a random order determined by an integer.

    >>> ordered([0, 1, 2, 3], [3, 1, 0, 2]), sorted(ordered([0, 1, 2, 3], 7))
    ([3, 1, 0, 2], [0, 1, 2, 3])
    """
    if order is None or order == "seed":
        return labels
    if isinstance(order, int):
        places = _permutations(torch.tensor([order]), len(labels))[0].tolist()
        return [labels[place] for place in places]
    try:
        found = [operator.index(label) for label in order]  # type: ignore[arg-type]
    except TypeError:
        raise InputError(
            f"class_order is {order!r}: pass 'seed' (another order for every seed), a number (one "
            "random order) or a list of the classes"
        ) from None
    if sorted(found) != labels:
        raise InputError(
            f"class_order={found} must have every class once; the classes are {labels}"
        )
    return found


def class_groups(
    labels: list[int], tasks: int | Sequence[Sequence[int]] | None, order: Order | str | None
) -> list[tuple[int, ...]]:
    """Return the classes of each task, from the number of tasks or as given."""
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
    try:
        groups = [tuple(operator.index(label) for label in group) for group in tasks]
    except TypeError:
        raise InputError(
            f"tasks is {tasks!r}: pass the number of tasks, or the classes of each task, such as "
            f"[[0, 1], [2, 3]]"
        ) from None
    if sorted(label for group in groups for label in group) != labels or not all(groups):
        raise InputError(
            f"tasks={[list(group) for group in groups]} must name every class of the training "
            f"examples exactly once, with no task empty; the classes are {labels}"
        )
    return groups


@final
class ClassOrder:
    """Map examples to those that replace them under the class order of a seed.

    The c-th class of a seed's order replaces the c-th class of the sorted labels, so every task has
    the same labels for every seed. The example of rank r in one class replaces that of rank r in
    the other. All classes are cut to the size of the smallest, so that the stream length does not
    depend on the seed: `used` `[N]` is a mask of the examples that are left.
    """

    def __init__(self, y: Tensor) -> None:
        number = torch.unique(y, return_inverse=True)[1]
        members = [(number == c).nonzero().flatten() for c in range(int(number.max()) + 1)]
        smallest = min(map(len, members))
        rank = torch.empty_like(number)
        for ids in members:
            key = bits(torch.tensor([0]), Purpose.CLASSES, len(ids))
            rank[ids] = permute(key, torch.arange(len(ids)), len(ids))
        chosen = [ids[rank[ids].argsort()][:smallest] for ids in members]
        self.used = rank < smallest
        self._copies = Copies(number, rank, torch.stack(chosen))

    def rows(self, seeds: Tensor, ids: Tensor) -> Tensor:
        """Return the examples that replace `ids` `[K, n]` in the runs with these seeds."""
        number, rank, by_class = self._copies.on(ids.device)
        order = _permutations(seeds, len(by_class))
        return by_class[order.gather(1, take(number, ids)), take(rank, ids)]


def _permutations(seeds: Tensor, classes: int) -> Tensor:
    """Random class order for each seed, `[K, C]`."""
    key = bits(seeds, Purpose.CLASSES)
    return permute(key[:, None], torch.arange(classes, device=seeds.device), classes)
