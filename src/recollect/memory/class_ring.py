"""A ring buffer for every class, from the start or once a reservoir would lose a class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from recollect.memory.policy import Arrivals, Clock, Drawn, last_in_slot
from recollect.memory.reservoir import without_replacement


@final
@dataclass(frozen=True)
class ClassRing:
    """A ring buffer for every class, with its most recent examples (Chaudhry et al., 2019).

    Every class has an equal share of the slots, from c * share on, and its n-th example (from 0)
    goes to slot c * share + n mod share. With `renews=False`, only the first examples of a class
    are stored, and a method may replace them. Draws are uniform without replacement over the
    stored examples.

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
        """Return the largest size a run may have; runs with fewer examples are padded."""
        return (min(replay, clock.seen, self.capacity),) * draws

    def steady(self, clock: Clock, replay: int) -> bool:
        """Whether enough examples may be stored for draws of the full size."""
        return clock.seen >= min(replay, self.capacity)

    def stored(self, counts: Tensor) -> Tensor:
        """The number of stored examples of every class after `counts` `[..., C]` were seen."""
        return counts.clamp(max=self._share(counts))

    def class_of_slot(self, slots: Tensor, classes: int) -> Tensor:
        """The class that owns each slot."""
        return slots // (self.capacity // classes)

    def slots(self, arrivals: Arrivals) -> Tensor:
        """Assign slots to the examples of the next steps, `[steps, K, batch]`."""
        labels, share = arrivals.labels, self._share(arrivals.counts)
        number = _seen(arrivals).gather(2, labels) + _rank_in_class(labels)
        slot = labels * share + number % share
        if not self.renews:
            return torch.where(number < share, slot, self.capacity)
        return last_in_slot(slot, self.capacity)

    def draws(self, arrivals: Arrivals, sizes: tuple[int, ...]) -> Drawn:
        """Draw the slots to replay in the next steps, `[steps, K, sum(sizes)]`.

        If a run has too few examples, slots are repeated as padding and marked as not valid.
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
    """The state of a memory that switches from a reservoir to class rings; changes in place.

    `label` `[K, capacity + 1]` is the class of the example in every slot (the number of classes if
    the slot is empty), and `ring` `[K]` says whether the run has switched. After the switch, class
    c owns the `share` slots listed in `table` `[K, C * share]`, and `turn` `[K, C]` counts its
    examples to find the next slot. A class keeps its slots up to its share and receives surplus
    slots of other classes for the rest; the examples there remain until they are overwritten, so
    the memory stays full.

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
        """Create the tensors of runs with an empty memory."""
        table = torch.zeros(runs, capacity // classes * classes, dtype=torch.int64)
        return {
            "label": torch.full((runs, capacity + 1), classes),
            "ring": torch.zeros(runs, dtype=torch.bool),
            "table": table,
            "turn": torch.zeros(runs, classes, dtype=torch.int64),
        }

    def slots_for(self, slots: Tensor, y: Tensor, least: int) -> Tensor:
        """Assign slots to a batch with labels y, given the `slots` of a reservoir, all `[K, B]`.

        The run switches to rings if the reservoir would reduce a class that has at least `least`
        examples to fewer.
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
        """The `table` and `turn` of a run that switches to rings now."""
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
    """Count the labels `[K, n]` of every class, `[K, C]`."""
    counts = labels.new_zeros(len(labels), classes + 1)
    return counts.scatter_add_(1, labels, torch.ones_like(labels))[:, :classes]


def _rank_in_class(labels: Tensor) -> Tensor:
    """The number of earlier examples with the same label in the batch, `[..., B]`."""
    batch = labels.shape[-1]
    earlier = torch.ones(batch, batch, dtype=torch.bool, device=labels.device).tril(-1)
    return ((labels[..., :, None] == labels[..., None, :]) & earlier).sum(-1)


def _seen(arrivals: Arrivals) -> Tensor:
    """The number of examples of every class before each of the next steps, `[steps, K, C]`."""
    labels, before = arrivals.labels, arrivals.counts
    arrived = labels.new_zeros(arrivals.steps, arrivals.runs, before.shape[1])
    arrived.scatter_add_(2, labels, torch.ones_like(labels))
    return before + arrived.cumsum(0) - arrived
