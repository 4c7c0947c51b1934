"""Reservoir sampling: every example of the stream is kept with the same probability."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recollect.core.random import Purpose, below, bits, permute

__all__ = ["Reservoir"]


@dataclass(frozen=True)
class Reservoir:
    """Which slot an example goes to, and which slots are replayed (Vitter, 1985).

    Example number N (from 0) goes to slot N while there is room, and otherwise to a slot uniform
    in 0..N, if that is below the capacity. Both rules are pure functions of the seed and of how
    much was seen, so they can be worked out for many steps at once, before the steps are taken.

    >>> rule = Reservoir(capacity=3)
    >>> rule.slots(torch.tensor([0, 1]), seen=0, steps=1, batch=3)
    tensor([[[0, 1, 2],
             [0, 1, 2]]])
    >>> rule.filled(seen=2), rule.filled(seen=100)
    (2, 3)
    """

    capacity: int

    def filled(self, seen: int) -> int:
        """How many slots are in use after `seen` examples."""
        return min(seen, self.capacity)

    def slots(self, seeds: Tensor, seen: int, steps: int, batch: int) -> Tensor:
        """Where the examples of the coming steps go, `[steps, K, batch]`.

        The slot `capacity` means: not kept. Of two examples of a batch that go to one slot, the
        later one stays there, as if they had come one by one.
        """
        number = torch.arange(seen, seen + steps * batch, device=seeds.device).view(-1, 1, batch)
        drawn = below(bits(seeds[:, None], Purpose.SLOT, number), number + 1)
        slot = torch.where(number < self.capacity, number, drawn).clamp(max=self.capacity)
        later = torch.ones(batch, batch, dtype=torch.bool, device=seeds.device).triu(1)
        overwritten = ((slot[..., :, None] == slot[..., None, :]) & later).any(-1)
        return torch.where(overwritten, self.capacity, slot)

    def draws(self, seeds: Tensor, step: int, *, filled: Tensor, draws: int, size: int) -> Tensor:
        """The slots to replay from step `step` on, `[steps, K, draws, size]`.

        `filled` `[steps]` says how many slots are in use at each step. A draw is uniform and
        without replacement over those, and independent of every other draw.
        """
        when = torch.arange(step, step + len(filled), device=seeds.device)[:, None, None]
        which = torch.arange(draws, device=seeds.device)
        keys = bits(seeds[:, None], Purpose.DRAW, when, which)
        places = torch.arange(size, device=seeds.device)
        return permute(keys[..., None], places, filled[:, None, None, None])
