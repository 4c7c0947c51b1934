"""The interface of memory policies: which examples are stored, and which are replayed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from recollect.errors import InputError

MANY = 512
NO_LABELS = "a memory policy that uses labels, counts or stored must set uses_labels = True"


@dataclass(frozen=True)
class Clock:
    """The numbers of steps taken and of examples seen, in total and in each finished task.

    All runs of a fleet share a clock, since the number of examples does not depend on the seed.
    `counts` are the numbers of distinct examples of finished tasks, `past` those seen, once per
    epoch. `holes` are the slots that were emptied and not yet refilled, in ascending order (for a
    single run only).

    >>> clock = Clock(tasks=2).after(steps=6, batch=10).next_task(count=30).after(1, batch=10)
    >>> clock.task, clock.seen, clock.seen_now, clock.past, clock.counts
    (1, 70, 10, (60,), (30,))
    """

    steps: int = 0
    seen: int = 0
    past: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()
    tasks: int = 1
    holes: tuple[int, ...] = ()

    @property
    def task(self) -> int:
        """The index of the current task, from 0."""
        return len(self.past)

    @property
    def seen_now(self) -> int:
        """The number of examples seen in the current task."""
        return self.seen - sum(self.past)

    def after(self, steps: int, batch: int) -> Clock:
        """The clock after a number of further steps."""
        steps_taken, seen = self.steps + steps, self.seen + steps * batch
        return Clock(steps_taken, seen, self.past, self.counts, self.tasks, self.holes)

    def filled(self, slots: Tensor) -> Clock:
        """The clock after examples were stored in these slots of a single run, `[1, n]`."""
        stored = set(slots.flatten().tolist())
        return replace(self, holes=tuple(hole for hole in self.holes if hole not in stored))

    def next_task(self, count: int) -> Clock:
        """The clock at the end of the current task, which has `count` distinct examples."""
        return replace(self, past=(*self.past, self.seen_now), counts=(*self.counts, count))


@dataclass(frozen=True)
class Arrivals:
    """The input of a policy for the next steps: seeds, counts and labels, but no data.

    `seeds` are `[K]`; `labels` are those of the incoming batches, `[steps, K, batch]`; `counts`
    are the numbers of earlier examples of every class, `[K, C]`; `stored` are the labels in the
    slots of the memory, `[K, capacity]`, arbitrary in empty slots. Labels, counts and stored are
    only available to a policy with `uses_labels`.

    >>> arrivals = Arrivals(torch.tensor([0]), Clock(seen=5), steps=2, batch=3)
    >>> arrivals.numbers.tolist()
    [[5, 6, 7], [8, 9, 10]]
    """

    seeds: Tensor
    clock: Clock
    steps: int
    batch: int
    known: tuple[Tensor, Tensor] | None = None
    slot_labels: Tensor | None = None

    @property
    def runs(self) -> int:
        """The number of runs."""
        return len(self.seeds)

    @property
    def numbers(self) -> Tensor:
        """The positions of the examples in the stream, from 0, `[steps, batch]`."""
        first, last = self.clock.seen, self.clock.seen + self.steps * self.batch
        return torch.arange(first, last, device=self.seeds.device).view(self.steps, self.batch)

    @property
    def labels(self) -> Tensor:
        """The labels of the next steps, `[steps, K, batch]`."""
        return self._labelled()[0]

    @property
    def counts(self) -> Tensor:
        """The number of examples of every class before the first of these steps, `[K, C]`."""
        return self._labelled()[1]

    @property
    def stored(self) -> Tensor:
        """The labels in the slots before the first of these steps, `[K, capacity]`."""
        if self.slot_labels is None:
            raise InputError(NO_LABELS)
        return self.slot_labels

    def _labelled(self) -> tuple[Tensor, Tensor]:
        if self.known is None:
            raise InputError(NO_LABELS)
        return self.known


class Drawn(NamedTuple):
    """The slots to replay, `[steps, K, n]`, and a mask `valid`, or None if all are valid.

    If a run has fewer examples than requested, slots that are not `valid` are padding.

    >>> Drawn(torch.tensor([[[0, 2]]])).valid is None
    True
    """

    slots: Tensor
    valid: Tensor | None = None


class Policy(Protocol):
    """A memory policy: chooses the slots that examples are stored in and those to replay.

    A policy is a pure function of its arguments, so it can be evaluated for many steps in advance.
    It has no access to weights or data.

    >>> from recollect.memory import Reservoir
    >>> policy: Policy = Reservoir(capacity=3)
    >>> policy.slots(Arrivals(torch.tensor([0]), Clock(), steps=1, batch=2))
    tensor([[[0, 1]]])
    """

    @property
    def capacity(self) -> int:
        """The number of slots per run."""

    @property
    def uses_labels(self) -> bool:
        """Whether slots or draws depend on labels."""

    def sizes(self, clock: Clock, draws: int, replay: int) -> tuple[int, ...]:
        """The number of examples in each draw of the next step."""

    def steady(self, clock: Clock, replay: int) -> bool:
        """Whether the sizes of draws will not change until the end of the task."""

    def slots(self, arrivals: Arrivals) -> Tensor:
        """Assign slots to the examples of the next steps, `[steps, K, batch]`.

        The slot `capacity` means that an example is not stored. A policy that never stores incoming
        examples, because the method writes to memory at task end, returns `[steps, K, 0]`.
        """

    def draws(self, arrivals: Arrivals, sizes: tuple[int, ...]) -> Drawn:
        """Draw the slots to replay in the next steps, `[steps, K, sum(sizes)]`."""


def check_members(policy: Policy) -> None:
    """Raise an `InputError` if a policy lacks a member of the protocol."""
    missing = [name for name in vars(Policy) if name[0] != "_" and name not in dir(policy)]
    if missing:
        raise InputError(
            f"the memory policy {type(policy).__name__} has no {', '.join(missing)}: it needs all "
            f"members of recollect.memory.Policy"
        )


def check_plans(
    policy: Policy, runs: int, capacity: int, classes: int, tasks: int, draws: int
) -> None:
    """Raise an `InputError` if a policy's slots or draws have a wrong shape, type or capacity.

    It is called for two steps, with an empty memory and after `capacity` examples.
    """
    kind, steps, batch = type(policy).__name__, 2, 3
    if policy.capacity > capacity:
        raise InputError(
            f"the memory policy {kind} has a capacity of {policy.capacity} examples, but the "
            f"memory has only {capacity}: create the policy with spec.capacity"
        )
    known = stored = None
    for seen in (0, capacity):
        if policy.uses_labels:
            labels = torch.zeros(steps, runs, batch, dtype=torch.int64)
            known = labels, torch.full((runs, classes), seen // classes)
            stored = torch.arange(capacity).expand(runs, -1) % classes
        clock = Clock(seen, seen, tasks=tasks)
        arrivals = Arrivals(torch.arange(runs), clock, steps, batch, known, stored)
        sizes: object = policy.sizes(clock, draws, min(2, capacity))
        if not isinstance(sizes, tuple) or not all(isinstance(size, int) for size in sizes):
            raise InputError(f"{kind}.sizes must return a tuple of integers, not {sizes!r}")
        _check_slots(f"{kind}.slots", policy.slots(arrivals), (steps, runs), (batch, 0))
        drawn: object = policy.draws(arrivals, sizes)
        if not isinstance(drawn, Drawn):
            raise InputError(f"{kind}.draws must return a Drawn, not a {type(drawn).__name__}")
        _check_slots(f"{kind}.draws", drawn.slots, (steps, runs), (sum(sizes),))


def _check_slots(what: str, found: object, lead: tuple[int, int], last: tuple[int, ...]) -> None:
    shapes = [[*lead, size] for size in last]
    if not isinstance(found, Tensor) or found.dtype != torch.int64:
        kind = found.dtype if isinstance(found, Tensor) else type(found).__name__
        raise InputError(f"{what} must return slots as a tensor of torch.int64, not {kind}")
    if list(found.shape) not in shapes:
        raise InputError(
            f"{what} returned slots of shape {list(found.shape)}, but expected is "
            f"{' or '.join(map(str, shapes))} ([steps, runs, examples])"
        )


def last_in_slot(slot: Tensor, capacity: int) -> Tensor:
    """Resolve conflicts: of the examples of a batch `[..., B]` with the same slot, store the last.

    The others get the slot `capacity`, which means that they are not stored.

    >>> last_in_slot(torch.tensor([[4, 2, 4]]), capacity=9)
    tensor([[9, 2, 4]])
    """
    batch = slot.shape[-1]
    if batch > MANY:  # too many for pairwise comparison
        order = slot.argsort(dim=-1, stable=True)
        ordered = slot.gather(-1, order)
        last = torch.ones_like(ordered, dtype=torch.bool)
        last[..., :-1] = ordered[..., 1:] != ordered[..., :-1]
        stays = torch.empty_like(last).scatter_(-1, order, last)
        return torch.where(stays, slot, capacity)
    later = torch.ones(batch, batch, dtype=torch.bool, device=slot.device).triu(1)
    overwritten = ((slot[..., :, None] == slot[..., None, :]) & later).any(-1)
    return torch.where(overwritten, capacity, slot)
