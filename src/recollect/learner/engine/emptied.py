"""Numbers of stored examples, and erasing slots of the memory."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from recollect.errors import DataError
from recollect.memory import interchangeable
from recollect.methods import Field
from recollect.train import Fleet
from recollect.train.guard import Guard

# The position of an example in the stream, from 1; 0 if it was stored without a number.
NUMBER = Field("number", (), torch.int64)


def numbers_after(seen: int, x: Tensor) -> dict[str, Tensor]:
    """Return the numbers to store for a batch `[n, ...]` after `seen` examples."""
    numbers = torch.arange(seen + 1, seen + 1 + len(x), device=x.device)
    return {NUMBER.name: numbers.unsqueeze(0)}


def stored_numbers(fleet: Fleet) -> dict[int, int]:
    """Map every filled slot of a fleet of one run to the number of its example."""
    slots: list[int] = fleet.planner.filled(fleet.clock).tolist()
    if NUMBER.name not in fleet.memory.tensors:
        return dict.fromkeys(slots, 0)
    numbers = fleet.memory.tensors[NUMBER.name].tolist()
    return {slot: numbers[slot] for slot in slots}


def check_holes(fleet: Fleet) -> None:
    """Raise a `DataError` unless the saved holes are filled slots in ascending order."""
    holes = fleet.clock.holes
    if not holes:
        return
    used = set(fleet.planner.filled(replace(fleet.clock, holes=())).tolist())
    if holes != tuple(sorted(set(holes))) or not used.issuperset(holes):
        raise DataError("the saved learner is damaged: it lists empty slots that were never filled")


@torch.no_grad()
def empty_slots(fleet: Fleet, guard: Guard, slots: list[int]) -> None:
    """Overwrite slots of a fleet of one run, and the spare row, with zeros; they become holes.

    If the slots of the policy are interchangeable, removed examples are subtracted from the class
    counts, so that a class still counts as complete if all its other examples are stored.
    """
    memory, planner = fleet.memory, fleet.planner
    if not memory.tensors:
        return
    rows = torch.tensor([[*slots, memory.spare]], device=fleet.device)
    guard.note_rows(rows)
    if planner.counts is not None and planner.policy and interchangeable(planner.policy):
        labels = memory.tensors["y"][rows[:, :-1]]
        planner.counts.scatter_add_(1, labels, -torch.ones_like(labels))
    zeros = {
        name: tensor.new_zeros(1, rows.shape[1], *tensor.shape[1:])
        for name, tensor in memory.tensors.items()
    }
    memory.write(rows, zeros)
    for name, value in fleet.by_slot.items():
        fleet.state[name][:, rows[0]] = value
    holes = {*fleet.clock.holes, *slots}
    fleet.clock = replace(fleet.clock, holes=tuple(sorted(holes)))
