"""An equal share of the memory for every class, whose occupancy depends on the labels seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from recollect.core.random import Purpose, bits, permute
from recollect.memory.clock import Clock
from recollect.memory.rule import later_stays

__all__ = ["ClassRing", "turns"]


@final
@dataclass(frozen=True)
class ClassRing:
    """The last examples of every class (Chaudhry et al., 2019).

    Class c owns the slots from c times the share on, and its n-th example (from 0) goes to the
    (n mod share)-th of them. Unless `renews`, only the first examples of a class are sent
    anywhere, and a method says what replaces them.

    Besides seeds and clock, it is a function of the labels of the coming steps `[steps, K, batch]`
    and of how many examples of every class came before, `[K, C]`.

    >>> rule, before = ClassRing(capacity=4), torch.tensor([[3, 0]])
    >>> rule.slots(torch.tensor([[[0, 1, 0]], [[0, 1, 1]]]), before)
    tensor([[[1, 2, 0]],
    <BLANKLINE>
            [[1, 3, 2]]])
    >>> rule.kept(before)
    tensor([[2, 0]])
    """

    capacity: int
    renews: bool = True

    def sizes(self, clock: Clock, draws: int, replay: int) -> tuple[int, ...]:
        """As many as there may be: where a run has fewer, some examples only fill the shape."""
        return (min(replay, clock.seen, self.capacity),) * draws

    def steady(self, clock: Clock, replay: int) -> bool:
        """Once there may be enough."""
        return clock.seen >= min(replay, self.capacity)

    def kept(self, seen: Tensor) -> Tensor:
        """How many examples of every class are kept when so many `[..., C]` were seen."""
        return seen.clamp(max=self._share(seen))

    def slots(self, labels: Tensor, before: Tensor) -> Tensor:
        """Where the examples of the coming steps go, `[steps, K, batch]`."""
        share = self._share(before)
        number = _seen(labels, before).gather(2, labels) + turns(labels)
        slot = labels * share + number % share
        if not self.renews:
            return torch.where(number < share, slot, self.capacity)
        return later_stays(slot, self.capacity)

    def draws(
        self, seeds: Tensor, clock: Clock, labels: Tensor, before: Tensor, sizes: tuple[int, ...]
    ) -> tuple[Tensor, Tensor]:
        """The slots to replay in the coming steps, and which of them count.

        Both are `[steps, K, sum(sizes)]`. A draw is uniform without replacement over what the
        run keeps. Where that is less than asked for, it is drawn again to fill the shape, and
        what is drawn again does not count.
        """
        kept = self.kept(_seen(labels, before))  # [steps, K, C]
        ends = kept.cumsum(2)
        filled = ends[..., -1:, None]  # [steps, K, 1, 1]
        device = seeds.device
        when = torch.arange(clock.steps, clock.steps + len(labels), device=device)
        which = torch.arange(len(sizes), device=device)
        keys = bits(seeds[:, None], Purpose.DRAW, when[:, None, None], which)
        places = torch.arange(sizes[0] if sizes else 0, device=device)
        drawn = permute(keys[..., None], places % filled.clamp(min=1), filled).flatten(2)
        counts = (places < filled).expand(-1, -1, len(sizes), -1).flatten(2)
        label = torch.searchsorted(ends, drawn, right=True).clamp(max=ends.shape[2] - 1)
        first = (ends - kept).gather(2, label)
        return label * self._share(before) + drawn - first, counts

    def _share(self, seen: Tensor) -> int:
        return self.capacity // seen.shape[-1]


def turns(labels: Tensor) -> Tensor:
    """How many examples of the same label stand before each one of a batch `[..., B]`.

    >>> turns(torch.tensor([5, 7, 5, 5]))
    tensor([0, 0, 1, 2])
    """
    batch = labels.shape[-1]
    earlier = torch.ones(batch, batch, dtype=torch.bool, device=labels.device).tril(-1)
    return ((labels[..., :, None] == labels[..., None, :]) & earlier).sum(-1)


def _seen(labels: Tensor, before: Tensor) -> Tensor:
    """How many examples of every class came before each of the coming steps, `[steps, K, C]`."""
    steps, runs, _ = labels.shape
    arrived = labels.new_zeros(steps, runs, before.shape[1])
    arrived.scatter_add_(2, labels, torch.ones_like(labels))
    return before + arrived.cumsum(0) - arrived
