"""Reservoir sampling: every example of the stream is kept with the same probability."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recollect.core.random import Purpose, below, bits, permute
from recollect.memory.clock import Clock
from recollect.memory.rule import later_stays

__all__ = ["Reservoir", "without_replacement"]


@dataclass(frozen=True)
class Reservoir:
    """Which slot an example goes to, and which slots are replayed (Vitter, 1985).

    Example number N (from 0) goes to slot N while there is room, and otherwise to a slot uniform
    in 0..N, if that is below the capacity.

    >>> rule = Reservoir(capacity=3)
    >>> rule.slots(torch.tensor([0, 1]), Clock(), steps=1, batch=3)
    tensor([[[0, 1, 2],
             [0, 1, 2]]])
    >>> rule.sizes(Clock(seen=2), draws=1, replay=5), rule.sizes(Clock(seen=100), 2, replay=5)
    ((2,), (3, 3))
    """

    capacity: int

    def filled(self, seen: int) -> int:
        """How many slots are in use after `seen` examples."""
        return min(seen, self.capacity)

    def sizes(self, clock: Clock, draws: int, replay: int) -> tuple[int, ...]:
        """As many as are asked for, or all there are."""
        return (min(replay, self.filled(clock.seen)),) * draws

    def steady(self, clock: Clock, replay: int) -> bool:
        """Once there are enough."""
        return self.filled(clock.seen) >= min(replay, self.capacity)

    def slots(self, seeds: Tensor, clock: Clock, steps: int, batch: int) -> Tensor:
        """Where the examples of the coming steps go, `[steps, K, batch]`.

        Of two examples of a batch that go to one slot, the later one stays there, as if they had
        come one by one.
        """
        first, last = clock.seen, clock.seen + steps * batch
        number = torch.arange(first, last, device=seeds.device).view(-1, 1, batch)
        drawn = below(bits(seeds[:, None], Purpose.SLOT, number), number + 1)
        slot = torch.where(number < self.capacity, number, drawn).clamp(max=self.capacity)
        return later_stays(slot, self.capacity)

    def draws(
        self, seeds: Tensor, clock: Clock, steps: int, batch: int, sizes: tuple[int, ...]
    ) -> Tensor:
        """Uniform draws without replacement over what is filled, each independent of the others."""
        seen = torch.arange(clock.seen, clock.seen + steps * batch, batch, device=seeds.device)
        filled = seen.clamp(max=self.capacity)
        return without_replacement(seeds, clock.steps, filled, sizes)


def without_replacement(seeds: Tensor, step: int, filled: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """Uniform draws from 0..filled-1 for the steps from `step` on, `[steps, K, sum(sizes)]`.

    `filled` `[steps]` says how many there are to draw from at each step. All draws of a step
    have one size.
    """
    when = torch.arange(step, step + len(filled), device=seeds.device)[:, None, None]
    which = torch.arange(len(sizes), device=seeds.device)
    keys = bits(seeds[:, None], Purpose.DRAW, when, which)
    places = torch.arange(sizes[0] if sizes else 0, device=seeds.device)
    return permute(keys[..., None], places, filled[:, None, None, None]).flatten(2)
