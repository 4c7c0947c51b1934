"""Emptied slots of a memory (holes): they are not replayed, and are filled first.

A policy is a pure function of the clock and does not know of removed examples. While the clock has
`holes`, the functions here adjust its draws and slots, for a fleet of one run. They do not depend
on the type of policy, but on two optional members that decide which examples may fill a hole:

- `interchangeable` is true if any example may be in any slot, and the first `min(seen, capacity)`
  are in use, as in a reservoir;
- `class_of_slot(slots, classes)` returns the class that owns each slot, as in class rings.

With a policy that has neither, a hole is filled when the policy assigns an example to it.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from recollect.core.random import Purpose, bits, permute
from recollect.memory.policy import Arrivals, Clock, Drawn, Policy, last_in_slot

Sizes = tuple[int, ...]

NONE, ANY = -2, -1


def interchangeable(policy: Policy) -> bool:
    """Whether any example may be in any slot, and the first `min(seen, capacity)` slots are used.

    >>> from recollect.memory import ClassRing, Reservoir
    >>> interchangeable(Reservoir(5)), interchangeable(ClassRing(5))
    (True, False)
    """
    return bool(getattr(policy, "interchangeable", False))


def sizes_around(policy: Policy, clock: Clock, sizes: Sizes) -> Sizes:
    """Limit the sizes of draws to the number of stored examples, without the holes.

    >>> from recollect.memory import Reservoir
    >>> sizes_around(Reservoir(5), Clock(seen=9, holes=(0, 2)), (4, 4))
    (3, 3)
    """
    stored = policy.sizes(clock, 2, policy.capacity)
    most = max(stored[0] - len(clock.holes), 0) if stored else 0
    return tuple(min(size, most) for size in sizes)


def filled_slots(policy: Policy, arrivals: Arrivals) -> Tensor:
    """The slots that have an example before the first of these steps, in ascending order, `[n]`.

    These are the slots that the policy would replay if the whole memory of one run was requested,
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
    """Draw slots with the policy for one step of one run, replacing holes by stored examples.

    Each hole in a draw is replaced by a random stored example that is not yet in the draw, so a
    uniform draw without replacement remains one over the stored examples. If there are no others,
    the hole remains and is not valid.
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
    """Assign slots to the batch of one step of one run, `[1, 1, B]`, filling holes first.

    Examples are assigned one after the other: to the policy's slot if that is empty, otherwise to
    the first hole that accepts the example, otherwise to the policy's slot. Once the last hole is
    filled, the policy assigns the rest of the batch.
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
    """Map each hole to the examples that may fill it: `NONE`, `ANY` or a class."""
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
    """The rest of a batch whose first examples were assigned to these slots, `[1, 1, n]`."""
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
