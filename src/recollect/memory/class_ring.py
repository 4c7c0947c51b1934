"""An equal share of the memory for every class, in which the newest examples replace the oldest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from recollect.core.random import Purpose, bits, permute
from recollect.memory.clock import Clock
from recollect.memory.policy import Arrivals, Drawn, last_in_slot

__all__ = ["ClassRing", "rank_in_class"]


@final
@dataclass(frozen=True)
class ClassRing:
    """The last examples of every class (Chaudhry et al., 2019).

    Class c owns the slots from c times the share on, and its n-th example (from 0) goes to the
    (n mod share)-th of them. Unless `renews`, only the first examples of a class are stored, and a
    method says what replaces them. A draw is uniform without replacement over what the run has.

    >>> policy, counts = ClassRing(capacity=4), torch.tensor([[3, 0]])
    >>> labels = torch.tensor([[[0, 1, 0]], [[0, 1, 1]]])
    >>> policy.slots(Arrivals(torch.tensor([0]), Clock(seen=3), 2, 3, (labels, counts)))
    tensor([[[1, 2, 0]],
    <BLANKLINE>
            [[1, 3, 2]]])
    >>> policy.stored(counts)
    tensor([[2, 0]])
    """

    capacity: int
    renews: bool = True
    uses_labels: ClassVar[bool] = True

    def sizes(self, clock: Clock, draws: int, replay: int) -> tuple[int, ...]:
        """As many as there may be: where a run has fewer, some examples only fill the shape."""
        return (min(replay, clock.seen, self.capacity),) * draws

    def steady(self, clock: Clock, replay: int) -> bool:
        """Once there may be enough."""
        return clock.seen >= min(replay, self.capacity)

    def stored(self, counts: Tensor) -> Tensor:
        """How many examples of every class are stored when so many `[..., C]` were seen."""
        return counts.clamp(max=self._share(counts))

    def slots(self, arrivals: Arrivals) -> Tensor:
        """Where the examples of the coming steps go, `[steps, K, batch]`."""
        labels, share = arrivals.labels, self._share(arrivals.counts)
        number = _seen(arrivals).gather(2, labels) + rank_in_class(labels)
        slot = labels * share + number % share
        if not self.renews:
            return torch.where(number < share, slot, self.capacity)
        return last_in_slot(slot, self.capacity)

    def draws(self, arrivals: Arrivals, sizes: tuple[int, ...]) -> Drawn:
        """The slots to replay in the coming steps, `[steps, K, sum(sizes)]`.

        Where a run has less than asked for, slots are drawn again to fill the shape; what is drawn
        again is not valid.
        """
        stored = self.stored(_seen(arrivals))  # [steps, K, C]
        ends = stored.cumsum(2)
        filled = ends[..., -1:, None]  # [steps, K, 1, 1]
        device, first = arrivals.seeds.device, arrivals.clock.steps
        when = torch.arange(first, first + arrivals.steps, device=device)
        which = torch.arange(len(sizes), device=device)
        keys = bits(arrivals.seeds[:, None], Purpose.DRAW, when[:, None, None], which)
        index = torch.arange(sizes[0] if sizes else 0, device=device)
        drawn = permute(keys[..., None], index % filled.clamp(min=1), filled).flatten(2)
        valid = (index < filled).expand(-1, -1, len(sizes), -1).flatten(2)
        label = torch.searchsorted(ends, drawn, right=True).clamp(max=ends.shape[2] - 1)
        offset = drawn - (ends - stored).gather(2, label)
        return Drawn(label * self._share(arrivals.counts) + offset, valid)

    def _share(self, counts: Tensor) -> int:
        return self.capacity // counts.shape[-1]


def rank_in_class(labels: Tensor) -> Tensor:
    """How many examples of the same label come before each one of a batch `[..., B]`.

    >>> rank_in_class(torch.tensor([5, 7, 5, 5]))
    tensor([0, 0, 1, 2])
    """
    batch = labels.shape[-1]
    earlier = torch.ones(batch, batch, dtype=torch.bool, device=labels.device).tril(-1)
    return ((labels[..., :, None] == labels[..., None, :]) & earlier).sum(-1)


def _seen(arrivals: Arrivals) -> Tensor:
    """How many examples of every class came before each of the coming steps, `[steps, K, C]`."""
    labels, before = arrivals.labels, arrivals.counts
    arrived = labels.new_zeros(arrivals.steps, arrivals.runs, before.shape[1])
    arrived.scatter_add_(2, labels, torch.ones_like(labels))
    return before + arrived.cumsum(0) - arrived
