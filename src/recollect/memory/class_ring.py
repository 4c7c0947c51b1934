"""A ring for every class, from the start or once a reservoir would lose a class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from recollect.memory.policy import Arrivals, Clock, Drawn, last_in_slot
from recollect.memory.reservoir import without_replacement

__all__ = ["ClassRing", "Hybrid"]


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

    def class_of_slot(self, slots: Tensor, classes: int) -> Tensor:
        """The class that owns each of some slots."""
        return slots // (self.capacity // classes)

    def slots(self, arrivals: Arrivals) -> Tensor:
        """Where the examples of the coming steps go, `[steps, K, batch]`."""
        labels, share = arrivals.labels, self._share(arrivals.counts)
        number = _seen(arrivals).gather(2, labels) + _rank_in_class(labels)
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
        drawn = without_replacement(arrivals, ends[..., -1], sizes).slots
        index = torch.arange(sizes[0] if sizes else 0, device=drawn.device)
        valid = (index < ends[..., -1:]).repeat(1, 1, len(sizes))
        label = torch.searchsorted(ends, drawn, right=True).clamp(max=ends.shape[2] - 1)
        offset = drawn - (ends - stored).gather(2, label)
        return Drawn(label * self._share(arrivals.counts) + offset, valid)

    def _share(self, counts: Tensor) -> int:
        return self.capacity // counts.shape[-1]


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
        number = self.turn.gather(1, y) + _rank_in_class(y)
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


def _rank_in_class(labels: Tensor) -> Tensor:
    """How many examples of the same label come before each one of a batch `[..., B]`."""
    batch = labels.shape[-1]
    earlier = torch.ones(batch, batch, dtype=torch.bool, device=labels.device).tril(-1)
    return ((labels[..., :, None] == labels[..., None, :]) & earlier).sum(-1)


def _seen(arrivals: Arrivals) -> Tensor:
    """How many examples of every class came before each of the coming steps, `[steps, K, C]`."""
    labels, before = arrivals.labels, arrivals.counts
    arrived = labels.new_zeros(arrivals.steps, arrivals.runs, before.shape[1])
    arrived.scatter_add_(2, labels, torch.ones_like(labels))
    return before + arrived.cumsum(0) - arrived
