"""Promises about what a run holds: it has a bound."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor

from recollect.testing.check import Broken
from recollect.testing.trial import BATCH, PER_TASK, Trial, tasks_of
from recollect.train import Fleet

__all__ = ["fresh_bytes", "held_over_steps", "held_over_tasks", "things"]


def held_over_steps(trial: Trial) -> None:
    """The same task for longer: no more is held than after its beginning."""
    with fresh_bytes() as held:
        fleet, sizes, size = trial.fleet(runs=(0,)), [], things(trial.methods[0])
        for epoch, _ in zip(range(8), trial.walk(fleet, steps=None, epochs=8), strict=False):
            if epoch in (3, 7):
                sizes.append(held())
    if sizes[-1] > sizes[0]:
        raise Broken(
            f"after twice the steps it holds {sizes[-1] - sizes[0]:,} bytes more: what lasts must "
            f"have its size from the beginning (`own`, `remembers`)"
        )
    if things(trial.methods[0]) > size:
        raise Broken("its class or instance has a container that grows with every step: use `own`")


def things(owner: object) -> int:
    """How many things the containers hold that an object or its class have."""
    places = [*vars(type(owner)).values(), *getattr(owner, "__dict__", {}).values()]
    return sum(len(thing) for thing in places if isinstance(thing, list | dict | set | bytearray))


def held_over_tasks(trial: Trial) -> None:
    """More tasks: no more is held, unless the method says that it `grows`."""
    few, many = (tasks_of(tasks, count=2 * BATCH, classes=5 * PER_TASK) for tasks in (2, 5))
    sizes = [_bytes(trial.fleet(runs=(0,), stream=stream)) for stream in (few, many)]
    grown = sizes[1] - sizes[0]
    if not grown:
        with fresh_bytes() as held:
            fleet, at = trial.fleet(runs=(0,), stream=many), list[int]()
            for moment in trial.walk(fleet, steps=None, stream=many):
                if moment.task == len(at):
                    at.append(held())
            grown = at[4] - at[2]
    if grown > 0 and not trial.kind.grows:
        raise Broken(
            f"with more tasks it holds {grown:,} bytes more: declare `grows`, or keep a sum or an "
            f"average instead of something for every task"
        )
    if trial.kind.grows and grown <= 0:
        raise Broken("it declares `grows`, and holds no more with more tasks: do not declare it")


def _bytes(fleet: Fleet) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in fleet.tensors().values())


@contextmanager
def fresh_bytes() -> Iterator[Callable[[], int]]:
    """Counts the bytes of all tensors that were made meanwhile and are still held by somebody."""
    frozen = gc.get_freeze_count()
    gc.freeze()  # what was there before is not looked at
    try:
        yield _held
    finally:
        if not frozen:
            gc.unfreeze()


def _held() -> int:
    gc.collect()
    tensors = [thing for thing in gc.get_objects() if issubclass(type(thing), Tensor)]
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    return sum(storages.values())
