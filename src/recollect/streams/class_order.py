"""Order in which classes arrive: given, random, or random per seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

import torch
from torch import Tensor

from recollect.core.random import Purpose, bits, permute
from recollect.errors import InputError
from recollect.streams.stream import Copies, take

__all__ = ["ClassOrder", "Order", "ordered", "usable"]

Order = Literal["seed"] | int | Sequence[int]


def ordered(labels: list[int], order: Order | str | None) -> list[int]:
    """Return the labels in a given order, or in a random order determined by an integer.

    >>> ordered([0, 1, 2, 3], [3, 1, 0, 2]), sorted(ordered([0, 1, 2, 3], 7))
    ([3, 1, 0, 2], [0, 1, 2, 3])
    """
    if order is None or order == "seed":
        return labels
    if isinstance(order, str):
        raise InputError(
            f"class_order is {order!r}: pass 'seed' (another order for every seed), a number (one "
            "random order) or a list of the classes"
        )
    if isinstance(order, int):
        places = _permutations(torch.tensor([order]), len(labels))[0].tolist()
        return [labels[place] for place in places]
    found = [int(label) for label in order]
    if sorted(found) != labels:
        raise InputError(
            f"class_order={found} must have every class once; the classes are {labels}"
        )
    return found


def usable(y: Tensor) -> Tensor:
    """Mask `[N]` of the examples that a stream with a class order per seed uses.

    All classes are cut to the size of the smallest, so that the stream length does not depend on
    the seed.
    """
    order = ClassOrder.of(y)
    return order.rank < order.by_class.shape[1]


@final
@dataclass(frozen=True, eq=False)
class ClassOrder:
    """Map examples to those that replace them under the class order of a seed.

    The c-th class of a seed's order replaces the c-th class of the sorted labels, so every task has
    the same labels for every seed. The example of rank r in one class replaces that of rank r in
    the other. `number` and `rank` are `[N]`, `by_class` is `[C, n]`.
    """

    number: Tensor
    rank: Tensor
    by_class: Tensor
    copies: Copies

    @classmethod
    def of(cls, y: Tensor) -> ClassOrder:
        """Build the mapping for examples with labels `[N]`."""
        number = torch.unique(y, return_inverse=True)[1]
        members = [(number == c).nonzero().flatten() for c in range(int(number.max()) + 1)]
        smallest = min(map(len, members))
        rank = torch.empty_like(number)
        for ids in members:
            key = bits(torch.tensor([0]), Purpose.CLASSES, len(ids))
            rank[ids] = permute(key, torch.arange(len(ids)), len(ids))
        chosen = [ids[rank[ids].argsort()][:smallest] for ids in members]
        by_class = torch.stack(chosen)
        return cls(number, rank, by_class, Copies(number, rank, by_class))

    def rows(self, seeds: Tensor, ids: Tensor) -> Tensor:
        """Return the examples that replace `ids` `[K, n]` in the runs with these seeds."""
        number, rank, by_class = self.copies.on(ids.device)
        order = _permutations(seeds, len(by_class))
        return by_class[order.gather(1, take(number, ids)), take(rank, ids)]


def _permutations(seeds: Tensor, classes: int) -> Tensor:
    """Random class order for each seed, `[K, C]`."""
    key = bits(seeds, Purpose.CLASSES)
    return permute(key[:, None], torch.arange(classes, device=seeds.device), classes)
