"""A class-balanced reservoir for imbalanced streams."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recollect.core.random import Purpose, below, bits
from recollect.memory.policy import Arrivals, last_in_slot
from recollect.memory.reservoir import Filling

Whole = NDArray[np.int64]

FRACTION = 31  # bits of a random fraction, so that its product with a capacity is below 2**63


@final
@dataclass(frozen=True)
class Balanced(Filling):
    """Class-balancing reservoir sampling (Chrysakis & Moens, 2020), with uniform replays.

    Examples go to the next free slot until the memory is filled. From then on, a class becomes
    full once no class has more stored examples, and stays full. An example of a class that is not
    full replaces a random example of the largest class (of all largest classes, if there are
    several). The n-th example of a full class replaces a random one of the m stored examples of
    its class with probability m/n: within a class, this is a reservoir.

    >>> from recollect.memory import Clock
    >>> policy, labels = Balanced(capacity=4), torch.tensor([[[0, 0, 0, 0, 1, 1]]])
    >>> counts, stored = torch.zeros(1, 2, dtype=torch.int64), torch.zeros(1, 4, dtype=torch.int64)
    >>> arrivals = Arrivals(torch.tensor([0]), Clock(), 1, 6, (labels, counts), stored)
    >>> memory = stored.new_zeros(1, 5).scatter(1, policy.slots(arrivals)[0], labels[0])
    >>> memory[0, :4].bincount()
    tensor([2, 2])
    """

    uses_labels: ClassVar[bool] = True
    classes_may_grow: ClassVar[bool] = True
    draws_use_labels: ClassVar[bool] = False

    def slots(self, arrivals: Arrivals) -> Tensor:
        """Assign slots to the examples of the next steps, `[steps, K, batch]`.

        Where an example goes depends on the examples before it, so they are processed one by one
        on the CPU; those that cannot enter the memory are skipped at once.
        """
        labels = arrivals.labels.transpose(0, 1).flatten(1)  # [K, n]
        words = bits(arrivals.seeds[:, None], Purpose.SLOT, arrivals.numbers.flatten())
        number = _numbers(labels, arrivals.counts)
        rank, fraction = below(words, number), below(words, 1 << FRACTION)
        known = (labels, number, rank, fraction, arrivals.stored, arrivals.counts)
        rows = [
            self._slots_of_run(arrivals.clock.seen, *run)
            for run in zip(*(each.cpu().numpy() for each in known), strict=True)
        ]
        slots = torch.from_numpy(np.stack(rows)).unflatten(1, (arrivals.steps, -1))  # type: ignore[no-untyped-call]
        return last_in_slot(slots.transpose(0, 1).to(labels.device), self.capacity)

    def _slots_of_run(
        self, seen: int, labels: Whole, number: Whole, rank: Whole, fraction: Whole,
        stored: Whole, counts: Whole,
    ) -> Whole:  # fmt: skip
        """Assign slots to a run's examples `[n]`, each the `number`-th of its class in the stream.

        `rank` is uniform below `number`, and `fraction` below 2**31. `stored` are the labels in
        the slots `[capacity]`, the first `seen` of which are filled. `counts` `[C]` is the number
        of earlier examples of every class.
        """
        slots = np.full_like(labels, self.capacity)
        free = min(max(self.capacity - seen, 0), len(labels))
        slots[:free] = seen + np.arange(free)
        if free == len(labels):
            return slots
        table = np.concatenate([stored[:seen], labels[:free]])
        sizes = np.bincount(table, minlength=len(counts))
        came = counts + np.bincount(labels[:free], minlength=len(counts))
        full = _full(sizes, sizes.max(), came)  # type: ignore[arg-type, unused-ignore]
        chosen = np.flatnonzero((rank < sizes[labels]) | ~full[labels])
        chosen = chosen[chosen >= free].tolist()
        if not chosen:
            return slots
        # The slots of every class in ascending order, so that a rank identifies a slot.
        order = table.argsort(kind="stable")
        owned = [each.tolist() for each in np.split(order, sizes.cumsum()[:-1])]
        largest = max(map(len, owned))
        for i in chosen:
            own = owned[labels[i]]
            if _full(len(own), largest, number[i] - 1):
                if rank[i] < len(own):
                    slots[i] = own[rank[i]]
                continue
            top = [each for each in owned if len(each) == largest]
            which, place = divmod(int(fraction[i]) * largest * len(top) >> FRACTION, largest)
            slots[i] = top[which].pop(place)
            insort(own, int(slots[i]))
            largest = max(map(len, owned))
        return slots


def _full(size: Any, largest: int, came: Any) -> Any:
    """Whether a class is full that has `size` stored examples, out of `came` seen.

    Only the largest class loses examples, so a class that has lost some was once the largest. And
    since the largest size never grows, a class that is no longer the largest has lost examples.
    """
    return (size == largest) | (size < came)


def equal_shares(labels: Tensor, count: int, order: Tensor) -> Tensor:
    """Select `count` stored examples to keep when a balanced memory shrinks; returns indices.

    `labels` `[n]` are those of the stored examples. The largest classes lose examples until the
    rest fits; each class keeps its first examples in a random `order` `[n]`.

    >>> equal_shares(torch.tensor([0, 0, 0, 1]), 2, torch.tensor([2, 0, 1, 3])).tolist()
    [2, 3]
    """
    rank = _numbers(labels[order][None], labels.new_zeros(1, int(labels.max()) + 1))[0]
    return order[rank.argsort(stable=True)[:count]]


def _numbers(labels: Tensor, counts: Tensor) -> Tensor:
    """Number the examples `[K, n]` of each class from 1, after `counts` `[K, C]` earlier ones."""
    order = labels.argsort(dim=1, stable=True)
    ordered = labels.gather(1, order)
    first = torch.searchsorted(ordered, ordered)
    rank = torch.arange(labels.shape[1], device=labels.device) - first
    return torch.empty_like(rank).scatter_(1, order, rank + 1) + counts.gather(1, labels)
