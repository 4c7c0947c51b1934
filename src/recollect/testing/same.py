"""All that a fleet is, and the first thing in which two fleets differ."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from recollect.train import Fleet

__all__ = ["difference", "state"]


def state(fleet: Fleet) -> dict[str, Tensor]:
    """Copies of every tensor that learning changes, each `[K, ...]`."""
    found = {n: t for n, t in fleet.tensors().items() if not n.startswith("memory.")}
    found |= {f"memory.{name}": tensor for name, tensor in fleet.memory.fields().items()}
    return {name: tensor.clone() for name, tensor in found.items()}


def difference(
    ours: Mapping[str, Tensor],
    theirs: Mapping[str, Tensor],
    runs: tuple[int, int] | None = None,
    within: float = 0.0,
) -> str:
    """What differs first, and by how much; nothing if all of ours is the same in theirs.

    Of `runs`, if they are given, the first of ours is compared with the second of theirs. Numbers
    that come out of a network may differ by rounding, `within` some bound; whole numbers, and the
    examples in memory, may not.
    """
    for name, tensor in ours.items():
        other = theirs.get(name)
        if other is None:
            return f"{name} is missing"
        mine = tensor if runs is None else tensor[runs[0]]
        other = other if runs is None else other[runs[1]]
        if mine.shape != other.shape or mine.dtype != other.dtype:
            return f"{name} is {_kind(mine)} and {_kind(other)}"
        exact = not mine.is_floating_point() or name == "memory.x" or not within
        off = _apart(mine, other)
        if off > (0.0 if exact else within):
            return f"{name} differs by {off:.1e}"
    return ""


def _apart(one: Tensor, other: Tensor) -> float:
    """The largest difference; what is not a number differs from what is one."""
    if torch.equal(one, other):
        return 0.0
    apart = (one.double() - other.double()).abs()
    alike = (one == other) | (one.isnan() & other.isnan())
    return float(torch.where(alike, 0.0, apart.nan_to_num(torch.inf, torch.inf)).max())


def _kind(tensor: Tensor) -> str:
    return f"{list(tensor.shape)} of {tensor.dtype}"
