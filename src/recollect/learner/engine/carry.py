"""Transfer the state of a fleet to one with more outputs, another memory or more fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from recollect.core.random import Purpose, bits, permute
from recollect.errors import InputError
from recollect.learner.engine.growth import overlaid, padded
from recollect.memory import interchangeable
from recollect.memory.balanced import equal_shares
from recollect.train import Fleet


def carry(old: Fleet, new: Fleet) -> None:
    """Copy the state of a fleet of one run to another fleet, as far as both have it.

    A smaller memory drops random examples, or examples of the largest classes first if its policy
    uses labels. Slots that the policy regards as filled, but that are empty, become holes.
    """
    larger = new.tensors()
    weights, more = old.weights.named(), new.weights.named()
    rows = _rows_that_fit(old, new.memory.capacity)
    state: dict[str, Tensor] = {}
    for name, tensor in old.tensors().items():
        part, _, rest = name.partition(".")
        if part == "optimiser" and name not in larger:  # a new torch optimiser has no state yet
            owner = rest.rpartition(".")[0]
            before, after = weights[owner].shape[1:], more[owner].shape[1:]
            if tensor.dim() and tensor.shape != before != after:
                raise InputError(
                    f"the optimiser's state {rest} has a shape that cannot grow with the number of "
                    f"classes: list all classes (classes=[...])"
                )
            state[name] = padded(tensor, after) if tensor.shape == before else tensor
        elif part == "memory" and rows is not None:
            state[name] = overlaid(tensor[rows], torch.zeros_like(larger[name]))
        elif part == "state" and rest in old.by_slot and rows is not None:
            state[name] = overlaid(tensor[:, rows], larger[name])
        elif part in ("weights", "state"):
            state[name] = overlaid(tensor, larger[name])
        else:
            state[name] = padded(tensor, larger[name].shape)
    added = {name: t for name, t in larger.items() if name.startswith("memory.")}
    clock = old.clock
    if rows is not None and new.planner.policy and interchangeable(new.planner.policy):
        clock = replace(clock, holes=_holes(old, new.memory.capacity, rows))
    new.restore(added | state, clock)


def copies_of_weights(tensors: Mapping[str, Tensor]) -> list[str]:
    """Find copies of the weights in the state of a method, and return their name prefixes."""
    weights = {name: t for name, t in tensors.items() if name.startswith("weights.")}
    first = next(iter(weights))
    found = [name.removesuffix(first) for name in tensors if name.endswith(f".{first}")]
    return [
        each for each in found if all(torch.equal(tensors[each + n], t) for n, t in weights.items())
    ]


def _rows_that_fit(old: Fleet, capacity: int) -> Tensor | None:
    """Choose the rows for the first slots of a memory of another size; None for the same size."""
    if capacity == old.memory.capacity:
        return None
    if capacity > old.memory.capacity:
        return torch.arange(old.memory.capacity, device=old.device)
    filled = old.planner.filled(old.clock).to(old.device)
    key = bits(old.seeds[0], Purpose.KEEP, old.steps)
    shuffled = permute(key, torch.arange(len(filled), device=old.device), len(filled))
    order = filled[shuffled]
    if old.planner.counts is not None:
        return equal_shares(old.memory.tensors["y"], capacity, order)
    return order[:capacity]


def _holes(old: Fleet, capacity: int, rows: Tensor) -> tuple[int, ...]:
    """Return the slots that the policy regards as filled but that hold none of the rows."""
    stored = set(old.planner.filled(old.clock).tolist())
    taken = {slot for slot, row in enumerate(rows.tolist()) if row in stored}
    return tuple(slot for slot in range(min(old.seen, capacity)) if slot not in taken)
