"""Compare states and functions of seeds; detect memory growth and use of global generators."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from recollect.testing.check import Broken
from recollect.train import Fleet

SEEDS = torch.tensor([3, 2**40, 0])
OTHER_SEED = 20_261_116  # unlikely to be set by anyone else
ADVICE = "make it a function of each run's seed only, with recollect.core.random"
OfSeeds = Callable[[Tensor], Mapping[str, Tensor]]  # seeds [K] to tensors [K, ...]


def state_of(fleet: Fleet) -> dict[str, Tensor]:
    """Copies of all tensors that training changes, each `[K, ...]`."""
    found = {n: t for n, t in fleet.tensors().items() if not n.startswith("memory.")}
    found |= {f"memory.{name}": tensor for name, tensor in fleet.memory.fields().items()}
    return {name: tensor.clone() for name, tensor in found.items()}


def difference(
    ours: Mapping[str, Tensor],
    theirs: Mapping[str, Tensor],
    runs: tuple[int, int] | None = None,
    within: float = 0.0,
) -> str:
    """Describe the first difference; empty if all tensors of ours are equal in theirs.

    With `runs` (i, j), run i of ours is compared with run j of theirs. Floating-point values may
    differ by at most `within`; integers and the examples in memory must be equal.
    """
    for name, tensor in ours.items():
        other = theirs.get(name)
        if other is None:
            return f"{name} is missing"
        mine = tensor if runs is None else tensor[runs[0]]
        other = other if runs is None else other[runs[1]]
        if mine.shape != other.shape or mine.dtype != other.dtype:
            return f"{name} is {shape_and_type(mine)} and {shape_and_type(other)}"
        exact = not mine.is_floating_point() or name == "memory.x" or not within
        largest = _largest_difference(mine, other)
        if largest > (0.0 if exact else within):
            return f"{name} differs by {largest:.1e}"
    return ""


def shape_and_type(tensor: Tensor) -> str:
    """The shape and type of a tensor, for a message."""
    return f"{list(tensor.shape)} of {tensor.dtype}"


def _largest_difference(one: Tensor, other: Tensor) -> float:
    if torch.equal(one, other):
        return 0.0
    apart = (one.double() - other.double()).abs()
    same = (one == other) | (one.isnan() & other.isnan())
    return float(torch.where(same, 0.0, apart.nan_to_num(torch.inf, torch.inf)).max())


def pure(function: OfSeeds) -> None:
    """The same seeds give the same result."""
    if found := difference(function(SEEDS), function(SEEDS)):
        raise Broken(f"called again with the same seeds, its result differs: {found}; {ADVICE}")


def company(function: OfSeeds) -> None:
    """The result of a run does not depend on other runs."""
    together = function(SEEDS)
    for runs in ([1], [2, 0]):
        part = {name: tensor[runs] for name, tensor in together.items()}
        if found := difference(part, function(SEEDS[runs])):
            raise Broken(f"the result of a run depends on other runs: {found}; {ADVICE}")


def generator(function: OfSeeds) -> None:
    """No global random generator is used."""
    with reseeded_generators() as used:
        function(SEEDS)
        if name := used():
            raise Broken(f"it draws from {name}: {ADVICE}")


@contextmanager
def reseeded_generators() -> Iterator[Callable[[], str]]:
    """Seed the global generators within this context; yields a function that names one in use."""
    states = torch.get_rng_state(), np.random.get_state(legacy=False), random.getstate()
    torch.manual_seed(OTHER_SEED)
    np.random.seed(OTHER_SEED)
    random.seed(OTHER_SEED)
    began = _generators()
    try:
        yield lambda: next((name for name, now in _generators().items() if began[name] != now), "")
    finally:
        torch.set_rng_state(states[0])
        np.random.set_state(states[1])
        random.setstate(states[2])


def _generators() -> dict[str, object]:
    return {
        "torch's global generator": torch.get_rng_state().tolist(),
        "numpy's global generator": str(np.random.get_state(legacy=False)),
        "Python's global generator": random.getstate(),
    }


def container_sizes(owner: object) -> int:
    """The number of items in the containers of an object and its class."""
    attributes = [*vars(type(owner)).values(), *getattr(owner, "__dict__", {}).values()]
    return sum(len(each) for each in attributes if isinstance(each, list | dict | set | bytearray))


@contextmanager
def new_tensor_bytes() -> Iterator[Callable[[], int]]:
    """Context that yields a function to count the bytes of live tensors created within it."""
    frozen = gc.get_freeze_count()
    gc.freeze()  # ignore existing objects
    try:
        yield _tensor_bytes
    finally:
        if not frozen:
            gc.unfreeze()


def _tensor_bytes() -> int:
    gc.collect()
    tensors = [thing for thing in gc.get_objects() if issubclass(type(thing), Tensor)]
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    return sum(storages.values())
