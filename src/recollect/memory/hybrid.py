"""A reservoir that turns into a ring for every class before it loses one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from recollect.memory.class_ring import rank_in_class
from recollect.memory.policy import last_in_slot

__all__ = ["Hybrid"]


@final
@dataclass(frozen=True)
class Hybrid:
    """What a run knows about its slots, to change from a reservoir to rings; all changes in place.

    `label` `[K, capacity + 1]` is the class of every slot's example (the number of classes where
    there is none), and `ring` `[K]` says whether the run has changed. From then on, class c owns
    the `share` slots that `table` `[K, C * share]` names, and `turn` `[K, C]` counts its examples,
    to say which slot is next. A class keeps the slots it has, up to its share, and is given others'
    surplus for the rest; what lies there stays until the new owner needs it, so the memory stays
    full.

    >>> state = Hybrid(**Hybrid.room(runs=1, capacity=2, classes=2))
    >>> state.slots_for(torch.tensor([[0, 1]]), torch.tensor([[0, 1]]), least=1)
    tensor([[0, 1]])
    >>> state.slots_for(torch.tensor([[1]]), torch.tensor([[0]]), least=1), state.ring
    (tensor([[0]]), tensor([True]))
    """

    label: Tensor
    ring: Tensor
    table: Tensor
    turn: Tensor

    @staticmethod
    def room(runs: int, capacity: int, classes: int) -> dict[str, Tensor]:
        """The tensors of runs that have seen nothing."""
        table = torch.zeros(runs, capacity // classes * classes, dtype=torch.int64)
        return {
            "label": torch.full((runs, capacity + 1), classes),
            "ring": torch.zeros(runs, dtype=torch.bool),
            "table": table,
            "turn": torch.zeros(runs, classes, dtype=torch.int64),
        }

    def slots_for(self, slots: Tensor, y: Tensor, least: int) -> Tensor:
        """Where a batch goes that a reservoir would send to `slots`, both `[K, B]`.

        The run changes to rings with this batch if the reservoir would leave a class with less than
        `least` examples that has as many now.
        """
        classes, capacity = self.turn.shape[1], self.label.shape[1] - 1
        now = _counts(self.label[:, :capacity], classes)
        then = _counts(self.label.scatter(1, slots, y)[:, :capacity], classes)
        change = ((now >= least) & (then < least)).any(1) & ~self.ring
        table, turn = self._fresh(now)
        self.table.copy_(torch.where(change[:, None], table, self.table))
        self.turn.copy_(torch.where(change[:, None], turn, self.turn))
        self.ring.logical_or_(change)

        share = self.table.shape[1] // classes
        number = self.turn.gather(1, y) + rank_in_class(y)
        owned = last_in_slot(self.table.gather(1, y * share + number % share), capacity)
        chosen = torch.where(self.ring[:, None], owned, slots)
        self.turn.add_(_counts(y, classes) * self.ring[:, None])
        self.label.scatter_(1, chosen, y)
        self.label[:, capacity].fill_(classes)
        return chosen

    def _fresh(self, now: Tensor) -> tuple[Tensor, Tensor]:
        """Who would own which slot, and whose turn it would be, if a run changed now."""
        classes, capacity = self.turn.shape[1], self.label.shape[1] - 1
        share, entries = self.table.shape[1] // classes, self.table.shape[1]
        label = self.label[:, :capacity]
        order = label.argsort(dim=1, stable=True)  # slots, class by class
        label = label.gather(1, order)
        rank = torch.arange(capacity, device=label.device) - torch.searchsorted(label, label)
        owned_now = (rank < share) & (label < classes)
        entry = torch.where(owned_now, label * share + rank, entries)
        spare = entry.new_full((len(entry), entries + 1), -1)
        table = spare.scatter(1, entry, order)[:, :entries]
        surplus = order.gather(1, owned_now.byte().argsort(dim=1, stable=True))
        vacant = table < 0
        which = (vacant.cumsum(1) - 1).clamp(min=0)
        return torch.where(vacant, surplus.gather(1, which), table), now.clamp(max=share)


def _counts(labels: Tensor, classes: int) -> Tensor:
    """How many of every class there are among labels `[K, n]`, `[K, C]`."""
    counts = labels.new_zeros(len(labels), classes + 1)
    return counts.scatter_add_(1, labels, torch.ones_like(labels))[:, :classes]
