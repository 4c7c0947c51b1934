"""A reservoir that gives every class an equal share of the memory, whatever the stream has."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recollect.core.random import Purpose, below, bits
from recollect.memory.policy import Arrivals, Clock, Drawn, last_in_slot
from recollect.memory.reservoir import Reservoir

__all__ = ["Balanced", "equal_shares"]

Whole = NDArray[np.int64]

FRACTION = 31  # bits of a random fraction, so that its product with a capacity is below 2**63


@final
@dataclass(frozen=True)
class Balanced:
    """Class-balancing reservoir sampling (Chrysakis & Moens, 2020), with uniform replays.

    Examples go to the next free slot until the memory is filled. A class is full from the moment
    on at which, in a filled memory, no class has more stored examples than it has. An example of
    a class that is not full replaces a random one of the largest class (of all examples of the
    largest classes, if there are several). An example of a full class, the n-th of it in the
    stream, replaces a random one of the m stored ones of its class with probability m/n: within a
    class it is a reservoir.

    >>> policy, labels = Balanced(capacity=4), torch.tensor([[[0, 0, 0, 0, 1, 1]]])
    >>> counts, stored = torch.zeros(1, 2, dtype=torch.int64), torch.zeros(1, 4, dtype=torch.int64)
    >>> arrivals = Arrivals(torch.tensor([0]), Clock(), 1, 6, (labels, counts), stored)
    >>> memory = stored.new_zeros(1, 5).scatter(1, policy.slots(arrivals)[0], labels[0])
    >>> memory[0, :4].bincount()
    tensor([2, 2])
    """

    capacity: int
    uses_labels: ClassVar[bool] = True
    classes_may_grow: ClassVar[bool] = True
    draws_use_labels: ClassVar[bool] = False
    interchangeable: ClassVar[bool] = True

    def sizes(self, clock: Clock, draws: int, replay: int) -> tuple[int, ...]:
        """As many as are asked for, or all there are."""
        return Reservoir(self.capacity).sizes(clock, draws, replay)

    def steady(self, clock: Clock, replay: int) -> bool:
        """Once there are enough."""
        return Reservoir(self.capacity).steady(clock, replay)

    def draws(self, arrivals: Arrivals, sizes: tuple[int, ...]) -> Drawn:
        """Uniform draws without replacement, each independent of the others."""
        return Reservoir(self.capacity).draws(arrivals, sizes)

    def slots(self, arrivals: Arrivals) -> Tensor:
        """Where the examples of the coming steps go, `[steps, K, batch]`.

        What an example does depends on those before it, so they are taken one by one; but all that
        neither enter the memory nor could are passed over at once. This is done on the CPU.
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
        """The slots of a run's examples `[n]`, each the `number`-th of its class in the stream.

        `rank` is uniform below `number`, and `fraction` below 2**31; `stored` are the labels of
        the slots `[capacity]`, of which as many are filled as examples were `seen`; so many of
        every class, `counts` `[C]`, came before.
        """
        slots = np.full_like(labels, self.capacity)
        free = min(max(self.capacity - seen, 0), len(labels))
        slots[:free] = seen + np.arange(free)
        if free == len(labels):
            return slots
        table = np.concatenate([stored[:seen], labels[:free]])
        sizes = np.bincount(table, minlength=len(counts))
        came = counts + np.bincount(labels[:free], minlength=len(counts))
        full = _full(sizes, sizes.max(), came)
        chosen = np.flatnonzero((rank < sizes[labels]) | ~full[labels])
        chosen = chosen[chosen >= free].tolist()
        if not chosen:
            return slots
        # The slots of every class in ascending order: what a rank means depends on nothing else.
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
    """Whether a class with `size` stored examples, of so many that `came`, is full.

    A class that has lost examples was the largest once: no other class ever loses one. And as the
    size of the largest never grows, one that was the largest and is not any more has lost some.
    """
    return (size == largest) | (size < came)


def equal_shares(labels: Tensor, count: int, order: Tensor) -> Tensor:
    """Which `count` of some stored examples stay when a balanced memory shrinks.

    The largest classes lose examples until the rest fits; of a class, those stay that come first in
    a random `order` `[n]` of the examples, which have these labels `[n]`.

    >>> equal_shares(torch.tensor([0, 0, 0, 1]), 2, torch.tensor([2, 0, 1, 3])).tolist()
    [2, 3]
    """
    rank = _numbers(labels[order][None], labels.new_zeros(1, int(labels.max()) + 1))[0]
    return order[rank.argsort(stable=True)[:count]]


def _numbers(labels: Tensor, counts: Tensor) -> Tensor:
    """The how-manieth of its class each example `[K, n]` is, after so many of each, `[K, C]`."""
    order = labels.argsort(dim=1, stable=True)
    ordered = labels.gather(1, order)
    first = torch.searchsorted(ordered, ordered)
    rank = torch.arange(labels.shape[1], device=labels.device) - first
    return torch.empty_like(rank).scatter_(1, order, rank + 1) + counts.gather(1, labels)
