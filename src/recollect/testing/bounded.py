"""Promises about memory: what a method stores has a bound."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from torch import Tensor

from recollect.testing.check import Broken
from recollect.testing.trial import BATCH, PER_TASK, Trial, tasks_of
from recollect.train import Fleet

__all__ = ["bounded_over_steps", "bounded_over_tasks", "container_sizes", "new_tensor_bytes"]


def bounded_over_steps(trial: Trial) -> None:
    """What it stores does not grow with the number of steps."""
    with new_tensor_bytes() as measure:
        fleet, sizes, before = trial.fleet(runs=(0,)), [], container_sizes(trial.methods[0])
        longer = replace(trial, epochs=8)
        for epoch, _ in zip(range(8), longer.walk(fleet, steps=None), strict=False):
            if epoch in (3, 7):
                sizes.append(measure())
    if sizes[-1] > sizes[0]:
        raise Broken(
            f"after twice the steps it stores {sizes[-1] - sizes[0]:,} bytes more: what lasts must "
            f"have its size from the beginning (`state` of its setup, `replay`)"
        )
    if container_sizes(trial.methods[0]) > before:
        raise Broken("its class or instance has a container that grows with every step: use state")


def container_sizes(owner: object) -> int:
    """How many items there are in the containers of an object and its class."""
    attributes = [*vars(type(owner)).values(), *getattr(owner, "__dict__", {}).values()]
    return sum(len(each) for each in attributes if isinstance(each, list | dict | set | bytearray))


def bounded_over_tasks(trial: Trial) -> None:
    """What it stores grows with the number of tasks only if it declares so."""
    streams = (tasks_of(tasks, count=2 * BATCH, classes=5 * PER_TASK) for tasks in (2, 5))
    few, many = (replace(trial, stream=stream) for stream in streams)
    sizes = [_fleet_bytes(each.fleet(runs=(0,))) for each in (few, many)]
    grown = sizes[1] - sizes[0]
    if not grown:
        with new_tensor_bytes() as measure:
            fleet, by_task = many.fleet(runs=(0,)), list[int]()
            for snapshot in many.walk(fleet, steps=None):
                if snapshot.task == len(by_task):
                    by_task.append(measure())
            grown = by_task[4] - by_task[2]
    if grown > 0 and not trial.kind.needs.grows:
        raise Broken(
            f"with more tasks it stores {grown:,} bytes more: declare Needs(grows=True), or store "
            f"a sum or an average instead of something for every task"
        )
    if trial.kind.needs.grows and grown <= 0:
        raise Broken("it declares `grows`, and stores no more with more tasks: do not declare it")


def _fleet_bytes(fleet: Fleet) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in fleet.tensors().values())


@contextmanager
def new_tensor_bytes() -> Iterator[Callable[[], int]]:
    """Yields a function that counts the bytes of all tensors made since that still exist."""
    frozen = gc.get_freeze_count()
    gc.freeze()  # what existed before is left out
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
