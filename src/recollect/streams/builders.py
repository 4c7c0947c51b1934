"""Modify a stream: blurry, long-tailed, imbalanced or recurring tasks, without copying data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real

import torch
from torch import Tensor

from recollect.core.random import Purpose, bits, permute
from recollect.errors import InputError
from recollect.streams.tasks import TaskStream

SWAPPED, RARE, KEPT, VISIT = 0, 1, 2, 3  # purposes of random numbers in these functions


def blurred(stream: TaskStream, share: float = 0.1, *, seed: int = 0) -> TaskStream:
    """Blur the boundaries between tasks: a share of each task's examples comes from other tasks.

    Examples are swapped at random, identically in every run, so each example still arrives once
    and task sizes do not change. Test sets do not change either. As tasks may then share classes,
    Task-IL is not evaluated.

    >>> from recollect.streams import benchmark
    >>> stream = blurred(benchmark("seq-digits").stream(), 0.2)
    >>> stream.parts(0), stream.test_y[stream.test_ids[0]].unique().tolist()
    ((288,), [0, 1])
    """
    _check_stream(stream, seed)
    if not _is_real(share) or not 0 <= share < 1:
        raise InputError(f"share must be a number from 0 to below 1, not {share!r}")
    if not stream.boundaries or stream.tasks < 2 or stream.view in ("rotated", "permuted"):
        raise InputError(f"cannot blur {stream.name}: its tasks all have the same examples")
    wanted = [round(share * len(ids)) for ids in stream.train_ids]
    counts = [min(count, sum(wanted) - count) for count in wanted]
    key = bits(torch.tensor([seed]), Purpose.TASKS, SWAPPED)
    orders = [
        ids[permute(bits(key, Purpose.TASKS, task), torch.arange(len(ids)), len(ids))]
        for task, ids in enumerate(stream.train_ids)
    ]
    leaving = torch.cat([ids[:n] for ids, n in zip(orders, counts, strict=True)])
    task_of = torch.arange(stream.tasks).repeat_interleave(torch.tensor(counts))
    mixed = leaving[_elsewhere(key, task_of)].split(counts)  # type: ignore[no-untyped-call]
    ids = tuple(
        torch.cat([new, old[n:]]).sort().values
        for new, old, n in zip(mixed, orders, counts, strict=True)
    )
    return _with_examples(stream, ids)


def long_tailed(stream: TaskStream, factor: float = 100.0, *, seed: int | None = 0) -> TaskStream:
    """Make class sizes long-tailed: geometric, the largest `factor` times the smallest.

    Which classes are rare is random, identically in every run; with `seed=None` class sizes
    decrease in the order in which classes arrive. The test set does not change.

    >>> from recollect.streams import benchmark
    >>> stream = long_tailed(benchmark("seq-digits").stream(), 10, seed=None)
    >>> torch.bincount(stream.train_y[torch.cat(stream.train_ids)]).tolist()
    [142, 110, 85, 66, 51, 40, 31, 24, 18, 14]
    """
    _check_stream(stream, seed)
    if not _is_real(factor) or not 1 <= factor < math.inf:
        raise InputError(f"factor must be a number of at least 1, not {factor!r}")
    counts = torch.bincount(stream.train_y[torch.cat(stream.train_ids)])
    labels = list(dict.fromkeys(label for group in stream.classes_of for label in group))
    labels = [label for label in labels if label < len(counts) and counts[label]]
    if seed is not None:
        key = bits(torch.tensor([seed]), Purpose.TASKS, RARE)
        order = permute(key, torch.arange(len(labels)), len(labels)).tolist()
        labels = [labels[place] for place in order]
    last = max(len(labels) - 1, 1)
    steps = {label: factor ** (place / last) for place, label in enumerate(labels)}
    most = min(float(counts[label]) * step for label, step in steps.items())
    shares = {label: most / step / float(counts[label]) for label, step in steps.items()}
    return imbalanced(stream, shares, seed=seed or 0)


def imbalanced(stream: TaskStream, shares: Mapping[int, float], *, seed: int = 0) -> TaskStream:
    """Use only a share of the training examples of some classes, at least one in each task.

    The share is random, identically in every run. The test set does not change.

    >>> from recollect.streams import benchmark
    >>> stream = imbalanced(benchmark("seq-digits").stream(), {1: 0.1})
    >>> torch.bincount(stream.train_y[stream.train_ids[0]]).tolist()
    [142, 15]
    """
    _check_stream(stream, seed)
    known = set(stream.train_y.tolist())
    if not isinstance(shares, Mapping):
        raise InputError(
            f"shares must be a mapping of classes to shares, such as {{0: 0.1}}, not {shares!r}"
        )
    for label, share in shares.items():
        if label not in known or not _is_real(share) or not 0 < share <= 1:
            raise InputError(
                f"shares has {label!r}: {share!r}, but a class of {stream.name} with a share above "
                "0 and at most 1 is expected"
            )
    number = torch.arange(len(stream.train_y))
    chance = bits(torch.tensor(seed), Purpose.TASKS, KEPT, number)  # a random number per example

    def some(ids: Tensor) -> Tensor:
        kept = torch.ones(len(ids), dtype=torch.bool)
        for label, share in shares.items():
            members = (stream.train_y[ids] == label).nonzero().flatten()
            if len(members):
                size = max(1, round(share * len(members)))
                kept[members[chance[ids[members]].argsort()[size:]]] = False
        return ids[kept]

    return replace(stream, train_ids=_each_once(stream.train_ids, some))


def recurring(
    stream: TaskStream, order: int | Sequence[int] = 2, *, again: bool = False
) -> TaskStream:
    """Repeat tasks: all of them `order` times, or in the given order of task numbers.

    Each visit has a different random part of the task's examples, or with `again` all of them.
    Every visit is a task of the new stream, with the test set of the original task.

    >>> from recollect.streams import benchmark
    >>> stream = recurring(benchmark("seq-digits").stream(), [0, 1, 0])
    >>> stream.tasks, stream.task_classes(2), stream.parts(0), stream.parts(2)
    (3, (0, 1), (144,), (144,))
    """
    _check_stream(stream)
    if not stream.boundaries:
        raise InputError(f"{stream.name} has no tasks to repeat")
    visits = [*range(stream.tasks)] * order if isinstance(order, int) else order
    known = range(stream.tasks)
    if not isinstance(visits, Sequence) or not visits or any(t not in known for t in visits):
        raise InputError(
            f"order={order!r} must be the number of repetitions, or a list of tasks from 0 to "
            f"{stream.tasks - 1}"
        )
    ids = list[Tensor]()
    for place, task in enumerate(visits):
        whole, times = stream.train_ids[task], visits.count(task)
        if not again:
            if len(whole) < times:
                raise InputError(f"task {task} has fewer examples than visits: pass again=True")
            key = bits(torch.tensor([0]), Purpose.TASKS, VISIT, task)
            part = permute(key, torch.arange(len(whole)), len(whole))[
                visits[:place].count(task) :: times
            ]
            whole = whole[part.sort().values]
        ids.append(whole)
    labels = tuple(stream.classes_of[task] for task in visits)
    tests = tuple(stream.test_ids[task] for task in visits)
    return replace(stream, train_ids=tuple(ids), test_ids=tests, classes_of=labels)


def _check_stream(stream: object, seed: object = None) -> None:
    if not isinstance(stream, TaskStream):
        raise InputError(
            f"a stream of recollect.from_arrays or of a sequential benchmark is expected, not a "
            f"{type(stream).__name__}"
        )
    if seed is not None and not isinstance(seed, Integral):
        raise InputError(f"the seed must be a whole number, not {seed!r}")


def _is_real(value: object) -> bool:
    return isinstance(value, Real)


def _with_examples(stream: TaskStream, ids: tuple[Tensor, ...]) -> TaskStream:
    """Return the stream with other training examples, and update the classes of its tasks."""
    if stream.setting != "class":
        return replace(stream, train_ids=ids)
    found = [set(stream.train_y[each].tolist()) for each in ids]
    groups = [
        (*own, *sorted(new - set(own))) for own, new in zip(stream.classes_of, found, strict=True)
    ]
    return replace(stream, train_ids=ids, classes_of=tuple(groups))


def _each_once(tasks: tuple[Tensor, ...], change: Callable[[Tensor], Tensor]) -> tuple[Tensor, ...]:
    """Apply a change to the examples of every task; tasks that share a tensor still share it."""
    done = {id(ids): change(ids) for ids in {id(ids): ids for ids in tasks}.values()}
    return tuple(done[id(ids)] for ids in tasks)


def _elsewhere(key: Tensor, task_of: Tensor) -> Tensor:
    """Return a random permutation that assigns no position an example of its own task.

    No task may have more than half of the examples.
    """
    count, task = len(task_of), task_of.tolist()
    where: list[int] = permute(key, torch.arange(count), count).tolist()
    for place in range(count):
        other = place
        # Swap with the next position that resolves the conflict; it always exists.
        while task[where[place]] == task[place]:
            other = (other + 1) % count
            if task[where[other]] != task[place] != task[other]:
                where[place], where[other] = where[other], where[place]
    return torch.tensor(where, dtype=torch.int64)
