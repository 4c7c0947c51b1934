"""Reservoir sampling, and a memory whose slots are chosen by the method once it is full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recollect.core.random import Purpose, below, bits, coming_bits, permute
from recollect.memory.policy import Arrivals, Clock, Drawn, last_in_slot


@dataclass(frozen=True)
class Filling:
    """Base of policies that use free slots in order and replay uniformly from those in use."""

    capacity: int
    interchangeable: ClassVar[bool] = True

    def filled(self, seen: int) -> int:
        """The number of slots in use after `seen` examples."""
        return min(seen, self.capacity)

    def sizes(self, clock: Clock, draws: int, replay: int) -> tuple[int, ...]:
        """Return `replay` for each draw, or the number of stored examples if that is smaller."""
        return (min(replay, self.filled(clock.seen)),) * draws

    def steady(self, clock: Clock, replay: int) -> bool:
        """Whether enough examples are stored for draws of the full size."""
        return self.filled(clock.seen) >= min(replay, self.capacity)

    def draws(self, arrivals: Arrivals, sizes: tuple[int, ...]) -> Drawn:
        """Draw slots uniformly without replacement; draws are independent of each other."""
        filled = arrivals.numbers[:, 0].clamp(max=self.capacity)
        return without_replacement(arrivals, filled, sizes)


@dataclass(frozen=True)
class Reservoir(Filling):
    """Reservoir sampling (Vitter, 1985), with uniform replays.

    Example N (from 0) goes to slot N until the memory is full, and then to a slot drawn uniformly
    from 0..N if that is below the capacity. If two examples of a batch go to the same slot, the
    later one is stored, as if they had arrived one by one.

    >>> policy = Reservoir(capacity=3)
    >>> policy.slots(Arrivals(torch.tensor([0, 1]), Clock(), steps=1, batch=3))
    tensor([[[0, 1, 2],
             [0, 1, 2]]])
    >>> policy.sizes(Clock(seen=2), draws=1, replay=5), policy.sizes(Clock(seen=100), 2, replay=5)
    ((2,), (3, 3))
    """

    uses_labels: ClassVar[bool] = False

    def slots(self, arrivals: Arrivals) -> Tensor:
        """Assign slots to the examples of the next steps, `[steps, K, batch]`."""
        number = arrivals.numbers[:, None]
        drawn = below(bits(arrivals.seeds[:, None], Purpose.SLOT, number), number + 1)
        slot = torch.where(number < self.capacity, number, drawn).clamp(max=self.capacity)
        return last_in_slot(slot, self.capacity)


@dataclass(frozen=True)
class Chosen(Filling):
    """Fills free slots in order; once the memory is full, the method decides what to store.

    Draws are uniform over the filled slots, as in a reservoir; the last draw has the size
    `compared`, the others are replays. The method chooses slots with `step.store_at`.

    >>> policy = Chosen(capacity=3, compared=2)
    >>> policy.slots(Arrivals(torch.tensor([0]), Clock(seen=2), steps=1, batch=2))
    tensor([[[2, 3]]])
    >>> policy.sizes(Clock(seen=9), draws=2, replay=1)
    (1, 2)
    """

    compared: int
    uses_labels: ClassVar[bool] = False

    def sizes(self, clock: Clock, draws: int, replay: int) -> tuple[int, ...]:
        """Return the size of each draw, limited to the number of stored examples."""
        filled = self.filled(clock.seen)
        return (*[min(replay, filled)] * (draws - 1), min(self.compared, filled))

    def steady(self, clock: Clock, replay: int) -> bool:
        """Whether enough examples are stored for draws of the full size."""
        return super().steady(clock, max(replay, self.compared))

    def slots(self, arrivals: Arrivals) -> Tensor:
        """The next free slots, `[steps, K, batch]`."""
        return arrivals.numbers.clamp(max=self.capacity)[:, None].expand(-1, arrivals.runs, -1)

    def draws(self, arrivals: Arrivals, sizes: tuple[int, ...]) -> Drawn:
        """Draw slots uniformly without replacement, `[steps, K, sum(sizes)]`."""
        largest = (max(sizes),) * len(sizes)
        drawn = super().draws(arrivals, largest).slots
        parts = drawn.unflatten(2, (len(sizes), -1)).unbind(2)  # type: ignore[no-untyped-call]
        cut = [part[..., :size] for part, size in zip(parts, sizes, strict=True)]
        return Drawn(torch.cat(cut, 2))


def without_replacement(arrivals: Arrivals, filled: Tensor, sizes: tuple[int, ...]) -> Drawn:
    """Draw slots uniformly without replacement from 0..filled-1.

    `filled` is `[steps]` or `[steps, K]`. All draws of a step must have the same size; if it
    exceeds `filled`, slots are repeated.

    >>> arrivals = Arrivals(torch.tensor([0]), Clock(), steps=1, batch=10)
    >>> without_replacement(arrivals, torch.tensor([3]), sizes=(3,)).slots.sort().values
    tensor([[[0, 1, 2]]])
    """
    seeds, steps = arrivals.seeds, arrivals.steps
    keys = coming_bits(seeds, Purpose.DRAW, arrivals.clock.steps, steps, len(sizes))
    index = torch.arange(sizes[0] if sizes else 0, device=seeds.device)
    room = filled.view(steps, -1, 1, 1)
    return Drawn(permute(keys[..., None], index % room.clamp(min=1), room).flatten(2))
