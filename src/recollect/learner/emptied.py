"""The numbers that examples have in a memory, and how slots of it are emptied."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from recollect.errors import DataError
from recollect.memory import interchangeable
from recollect.methods import Field
from recollect.train import Fleet
from recollect.train.guard import Guard

__all__ = ["NUMBER", "check_holes", "empty_slots", "numbers_after", "stored_numbers"]

# Which example of the stream it is, from 1; 0 where nobody asked for numbers when it arrived.
NUMBER = Field("number", (), torch.int64)


def numbers_after(seen: int, y: Tensor) -> dict[str, Tensor]:
    """What is stored of a batch with labels `[n]` that comes after so many examples."""
    numbers = torch.arange(seen + 1, seen + 1 + len(y), device=y.device)
    return {NUMBER.name: numbers.unsqueeze(0)}


def stored_numbers(fleet: Fleet) -> dict[int, int]:
    """The number of the example in every slot that has one, for a fleet of one run."""
    slots: list[int] = fleet.planner.filled(fleet.clock).tolist()
    if NUMBER.name not in fleet.memory.tensors:
        return dict.fromkeys(slots, 0)
    numbers = fleet.memory.tensors[NUMBER.name].tolist()
    return {slot: numbers[slot] for slot in slots}


def check_holes(fleet: Fleet) -> None:
    """Refuse a saved state whose holes are not slots, in ascending order, that are in use."""
    holes = fleet.clock.holes
    if not holes:
        return
    used = set(fleet.planner.filled(replace(fleet.clock, holes=())).tolist())
    if holes != tuple(sorted(set(holes))) or not used.issuperset(holes):
        raise DataError("it does not hold a whole learner: slots are empty that are not in use")


@torch.no_grad()
def empty_slots(fleet: Fleet, guard: Guard, slots: list[int]) -> None:
    """Overwrite slots of a single run, and the spare row, with zeros; they are holes then.

    Where the slots of a policy do not depend on the counts of classes, what is removed does not
    count any more: a class that was stored whole is still stored whole.
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
