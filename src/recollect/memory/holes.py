"""Slots of a memory that were emptied: they are not replayed, and what arrives goes there first.

A policy is a pure function of the clock, and goes on as if nothing had been removed. What it says
is changed here, for a fleet of one run, as long as the clock has `holes`; no code asks which policy
it is. A policy may say two more things of its slots, which decide what goes into a hole:

- `interchangeable` is true if any example may lie in any slot, and the first `min(seen, capacity)`
  are in use, as in a reservoir;
- `class_of_slot(slots, classes)` says to which class each slot belongs, as in rings of classes.

Of a policy that says neither, holes are filled when it sends an example there.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from recollect.core.random import Purpose, bits, permute
from recollect.memory.policy import Arrivals, Clock, Drawn, Policy, last_in_slot

__all__ = ["drawn_around", "filled_slots", "interchangeable", "sizes_around", "slots_with_holes"]

Sizes = tuple[int, ...]

NONE, ANY = -2, -1


def interchangeable(policy: Policy) -> bool:
    """Whether any example may lie in any slot, of which the first `min(seen, capacity)` are used.

    >>> from recollect.memory import ClassRing, Reservoir
    >>> interchangeable(Reservoir(5)), interchangeable(ClassRing(5))
    (True, False)
    """
    return bool(getattr(policy, "interchangeable", False))


def sizes_around(policy: Policy, clock: Clock, sizes: Sizes) -> Sizes:
    """The sizes of draws where no more can be drawn than is stored.

    >>> from recollect.memory import Reservoir
    >>> sizes_around(Reservoir(5), Clock(seen=9, holes=(0, 2)), (4, 4))
    (3, 3)
    """
    stored = policy.sizes(clock, 2, policy.capacity)
    most = max(stored[0] - len(clock.holes), 0) if stored else 0
    return tuple(min(size, most) for size in sizes)


def filled_slots(policy: Policy, arrivals: Arrivals) -> Tensor:
    """The slots that have an example before the first of these steps, in ascending order, `[n]`.

    They are all that the policy would replay of one run, if it was asked for the whole memory,
    without the holes.

    >>> from recollect.memory import Reservoir
    >>> arrivals = Arrivals(torch.tensor([0]), Clock(seen=4, holes=(1,)), steps=1, batch=1)
    >>> filled_slots(Reservoir(5), arrivals).tolist()
    [0, 2, 3]
    """
    sizes = policy.sizes(arrivals.clock, 2, policy.capacity)
    used = torch.zeros(policy.capacity + 1, dtype=torch.bool)
    if sizes and sizes[0]:
        slots, valid = policy.draws(arrivals, sizes)
        first = slots[0, 0, : sizes[0]]
        used[(first if valid is None else first[valid[0, 0, : sizes[0]]]).cpu()] = True
    used[list(arrivals.clock.holes)] = False
    return used[:-1].nonzero().flatten()


def drawn_around(policy: Policy, arrivals: Arrivals, sizes: Sizes) -> Drawn:
    """What the policy draws in one step of one run, with others in place of the holes.

    In a draw, each hole is replaced by one of the stored examples that the draw does not have,
    chosen at random: a uniform draw without replacement stays one, of what is stored. Where there
    are no others, as in a class ring, what is drawn is not valid.
    """
    slots, valid = policy.draws(arrivals, sizes)
    slots, clock = slots.clone(), arrivals.clock
    holes = torch.tensor(clock.holes, device=slots.device)
    stored = filled_slots(policy, arrivals).to(slots.device)
    start = 0
    for number, size in enumerate(sizes):
        part = slots[0, 0, start : start + size]
        empty = torch.isin(part, holes)
        if valid is not None:
            empty &= valid[0, 0, start : start + size]
        others = stored[~torch.isin(stored, part)]
        count = min(int(empty.sum()), len(others))
        if count:
            key = bits(arrivals.seeds, Purpose.HOLE, clock.steps, number)
            chosen = permute(key, torch.arange(count, device=slots.device), len(others))
            part[empty.nonzero().flatten()[:count]] = others[chosen]
        start += size
    gone = torch.isin(slots, holes)
    if valid is not None or bool(gone.any()):
        valid = ~gone if valid is None else valid & ~gone
    return Drawn(slots, valid)


def slots_with_holes(policy: Policy, arrivals: Arrivals) -> Tensor:
    """Where the batch of one step of one run goes, `[1, 1, B]`, with the holes filled first.

    One after the other: an example goes where the policy sends it if that slot is empty, otherwise
    into the first hole that can take it, and where the policy sends it if there is none. Those
    that come after the last hole was filled go where the policy sends them once that has happened.
    """
    planned = policy.slots(arrivals)
    if not planned.shape[2]:
        return planned
    chosen = planned[0, 0].tolist()
    holes = _kinds_of_holes(policy, arrivals)
    kinds = _kinds_of_batch(policy, arrivals)
    used = {*filled_slots(policy, arrivals).tolist(), policy.capacity}
    count = 0
    while holes and count < len(chosen):
        if chosen[count] in used:
            mine = (hole for hole, kind in holes.items() if kind == kinds[count])
            chosen[count] = next(mine, chosen[count])
        holes.pop(chosen[count], None)
        used.add(chosen[count])
        count += 1
    first = planned.new_tensor(chosen[:count]).view(1, 1, -1)
    if count < len(chosen):
        first = torch.cat([first, policy.slots(_rest(arrivals, first))], 2)
    return last_in_slot(first, policy.capacity)


def _kinds_of_holes(policy: Policy, arrivals: Arrivals) -> dict[int, int]:
    """The holes, each with what may be sent there: `NONE`, `ANY` or a class."""
    holes = arrivals.clock.holes
    if interchangeable(policy):
        return dict.fromkeys(holes, ANY)
    class_of_slot = getattr(policy, "class_of_slot", None)
    if class_of_slot is None:
        return dict.fromkeys(holes, NONE)
    classes = class_of_slot(torch.tensor(holes), arrivals.counts.shape[1])
    return dict(zip(holes, classes.tolist(), strict=True))


def _kinds_of_batch(policy: Policy, arrivals: Arrivals) -> list[int]:
    if interchangeable(policy) or not policy.uses_labels:
        return [ANY] * arrivals.batch
    labels: list[int] = arrivals.labels[0, 0].tolist()
    return labels


def _rest(arrivals: Arrivals, slots: Tensor) -> Arrivals:
    """What is left of a batch when its first examples are in these slots, `[1, 1, n]`."""
    count = slots.shape[2]
    clock = replace(arrivals.clock, seen=arrivals.clock.seen + count, holes=())
    known, stored = arrivals.known, arrivals.slot_labels
    if known is not None and stored is not None:
        labels, counts = known
        taken = labels[0, :, :count]
        known = labels[:, :, count:], counts.scatter_add(1, taken, torch.ones_like(taken))
        spare = torch.cat([stored, stored[:, :1]], 1)
        stored = spare.scatter(1, last_in_slot(slots[0], stored.shape[1]), taken)[:, :-1]
    return replace(
        arrivals, clock=clock, batch=arrivals.batch - count, known=known, slot_labels=stored
    )
