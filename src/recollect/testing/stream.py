"""Conformance checks for streams, including your own."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import get_args

import torch
from torch import Tensor

from recollect.core.targets import TARGETS
from recollect.streams.stream import Batch, Setting, Stream, target_of
from recollect.testing import compare
from recollect.testing.check import Broken, Check, make_check
from recollect.testing.compare import SEEDS, shape_and_type

SOME = 24  # number of examples of a task to compare


def check_stream(stream: Stream, *, shared: bool = False, whole: Stream | None = None) -> None:
    """Check a stream; raise a `ConformanceError` for the first promise that it breaks.

    If there are many tasks, the first two and the last are checked.

    Args:
        stream: The stream.
        shared: Whether the stream is intentionally the same for every seed.
        whole: For a validation stream, the stream that its test examples are held out of.

    >>> import numpy as np
    >>> from recollect import from_arrays
    >>> x, y = np.random.default_rng(0).random((40, 3)), np.arange(40) % 4
    >>> check_stream(from_arrays(x, y, tasks=2))
    """
    for check in stream_checks(stream, shared=shared, whole=whole):
        check()


def stream_checks(
    stream: Stream, *, shared: bool = False, whole: Stream | None = None
) -> list[Check]:
    """List the checks of `check_stream`, to run them one by one, for example with pytest.

    >>> from recollect.streams import benchmark
    >>> checks = stream_checks(benchmark("seq-digits").stream())
    >>> [check.name for check in checks if not check.skipped]  # doctest: +NORMALIZE_WHITESPACE
    ['declarations', 'order', 'examples', 'labels', 'tests', 'index', 'pure', 'company', 'seeds',
     'generator']
    """
    check = partial(make_check, f"{type(stream).__name__} {getattr(stream, 'name', '')!r}")
    evaluated = (partial(_evaluate, stream),)
    no_whole = "" if whole is not None else "it is not a validation stream (whole was not passed)"
    return [
        check("declarations", _declarations, (stream,)),
        check("order", _order, (stream,)),
        check("examples", _examples, (stream,)),
        check("labels", _labels, (stream,)),
        check("tests", _tests, (stream,)),
        check("index", _index, (stream,)),
        check("pure", compare.pure, evaluated),
        check("company", compare.company, evaluated),
        check("seeds", _seeds, (stream, shared)),
        check("generator", compare.generator, evaluated),
        check("validation", _validation, (stream, whole), skipped=no_whole),
    ]


def _tasks(stream: Stream) -> list[int]:
    return sorted({0, min(1, stream.tasks - 1), stream.tasks - 1})


def _declarations(stream: Stream) -> None:
    """Its declarations are valid."""
    if not isinstance(stream.name, str) or not stream.name:
        raise Broken("it has no name: set `name`, which identifies it in tables")
    if stream.setting not in get_args(Setting):
        raise Broken(
            f"its setting is {stream.setting!r}: it must be one of {', '.join(get_args(Setting))}"
        )
    for name in ("classes", "tasks"):
        value = getattr(stream, name)
        if not isinstance(value, int) or value < 1:
            raise Broken(f"`{name}` is {value!r}: it must be a whole number of at least 1")
    if not isinstance(stream.shape, tuple) or not isinstance(stream.dtype, torch.dtype):
        raise Broken("`shape` must be a tuple, and `dtype` a torch.dtype")
    if not stream.boundaries and stream.tasks > 1:
        raise Broken(
            f"a stream without boundaries must have one task, not {stream.tasks}: return its "
            f"segments as `parts`"
        )
    for task in range(stream.tasks):
        if not stream.parts(task) or any(size < 1 for size in stream.parts(task)):
            raise Broken(
                f"the parts of task {task} are {stream.parts(task)}: there must be at least one, "
                f"and none may be empty"
            )
        classes = stream.task_classes(task)
        if not classes or not set(classes) <= set(range(stream.classes)):
            raise Broken(
                f"task {task} has the classes {classes}: they must be some of "
                f"0..{stream.classes - 1}"
            )


def _order(stream: Stream) -> None:
    """Every example occurs once per epoch, and slices of an order match the order."""
    for task in _tasks(stream):
        count = sum(stream.parts(task))
        for epoch in (0, 1):
            order = stream.order(SEEDS, task, epoch, 0, count)
            if order.shape != (len(SEEDS), count) or order.dtype != torch.int64:
                raise Broken(f"an order is {shape_and_type(order)}: return [K, n] of torch.int64")
            if not torch.equal(order.sort(1).values, torch.arange(count).expand_as(order)):
                raise Broken(
                    f"in epoch {epoch} of task {task} some example occurs twice or not at all: an "
                    f"order must be a permutation of 0..{count - 1} for every run"
                )
            half = count // 2
            pieces = [
                stream.order(SEEDS, task, epoch, *ends) for ends in ((0, half), (half, count))
            ]
            if not torch.equal(torch.cat(pieces, 1), order):
                raise Broken(
                    f"in task {task}, two slices of an order differ from the whole order: make "
                    f"each position independent of `start` and `stop`"
                )


def _some(stream: Stream, task: int, seeds: Tensor = SEEDS) -> tuple[Tensor, Batch]:
    count = min(sum(stream.parts(task)), SOME)
    index = stream.order(seeds, task, 0, 0, count)
    return index, stream.pick(seeds, task, index)


def _examples(stream: Stream) -> None:
    """Examples have the declared shapes and types."""
    for task in _tasks(stream):
        index, (x, y) = _some(stream, task)
        _as_declared(stream, x, y, tuple(index.shape), f"task {task}")


def _as_declared(stream: Stream, x: Tensor, y: Tensor, n: tuple[int, ...], what: str) -> None:
    if x.shape != (*n, *stream.shape) or x.dtype != stream.dtype:
        raise Broken(
            f"examples of {what} are {shape_and_type(x)}, but are declared as "
            f"{[*n, *stream.shape]} of {stream.dtype}"
        )
    target = target_of(stream)
    if what.startswith("the test set"):
        target = TARGETS[target.name]
    shape, dtype = target.layout(stream.classes)
    if y.shape != (*n, *shape) or y.dtype != dtype:
        raise Broken(f"labels of {what} are {shape_and_type(y)}: return {[*n, *shape]} of {dtype}")
    if x.is_floating_point() and not bool(x.isfinite().all()):
        raise Broken(f"examples of {what} are not all finite: remove or replace NaN and infinity")


def _labels(stream: Stream) -> None:
    """Labels are among the classes of their task."""
    if stream.setting in ("regression", "labels"):
        return
    for task in _tasks(stream):
        everything = torch.arange(sum(stream.parts(task))).repeat(len(SEEDS), 1)
        for what, y in (
            ("is trained", stream.pick(SEEDS, task, everything).y),
            ("is tested", stream.test(SEEDS, task).y),
        ):
            y = y[..., 1] if y.dim() > 2 else y
            if strange := set(y.unique().tolist()) - set(stream.task_classes(task)):  # type: ignore[no-untyped-call]
                raise Broken(
                    f"task {task} {what} on the label {min(strange)}, but its task_classes are "
                    f"{stream.task_classes(task)}: they must include all its labels"
                )


def _tests(stream: Stream) -> None:
    """Every task has a test set with the declared shapes and types."""
    for task in _tasks(stream):
        x, y = stream.test(SEEDS, task)
        runs, count = y.shape[:2]
        if runs not in (1, len(SEEDS)):
            raise Broken(
                f"the test set of task {task} is for {runs} runs: return one for each of K runs, "
                f"or a single one for all"
            )
        if not count:
            raise Broken(f"the test set of task {task} is empty: it needs at least one example")
        _as_declared(stream, x, y, (runs, count), f"the test set of task {task}")


def _index(stream: Stream) -> None:
    """An example does not depend on its position in an index, or on the task being a tensor."""
    for task in _tasks(stream):
        index, batch = _some(stream, task)
        turned = stream.pick(SEEDS, task, index.flip(1))
        each = stream.pick(SEEDS, torch.full_like(index, task), index)
        single = stream.pick(SEEDS, task, index[:, :1].contiguous())
        pairs = (
            (turned, [t.flip(1) for t in batch]),
            (each, batch),
            (single, [t[:, :1] for t in batch]),
        )
        for found, expected in pairs:
            if not all(map(torch.equal, found, expected)):
                raise Broken(
                    f"an example of task {task} differs if it is picked in another order, alone, "
                    f"or with its task as a tensor: make it depend on its index only"
                )


def _evaluate(stream: Stream, seeds: Tensor) -> dict[str, Tensor]:
    """Orders, examples and test sets of some runs, each tensor `[K, ...]`."""
    found = dict[str, Tensor]()
    for task in _tasks(stream):
        index, batch = _some(stream, task, seeds)
        test = [t.expand(len(seeds), *t.shape[1:]) for t in stream.test(seeds, task)]
        later = stream.order(seeds, task, 1, 0, index.shape[1])
        names = ("the order", "x", "y", "x of the test set", "y of the test set", "a later order")
        tensors = (index, *batch, *test, later)
        found |= {f"{n} of task {task}": t for n, t in zip(names, tensors, strict=True)}
    return found


def _seeds(stream: Stream, shared: bool) -> None:
    """Another seed gives another stream."""
    everything = _evaluate(stream, SEEDS)
    differ = bool(compare.difference(everything, everything, (0, 1)))
    if shared and differ:
        raise Broken("it differs between seeds, but shared=True was passed")
    if not shared and not differ:
        raise Broken(
            "it is the same for every seed: make the order depend on the seed (`shuffled`), or "
            "pass shared=True if this is intended"
        )


def _validation(stream: Stream, whole: Stream) -> None:
    """Held-out examples are not trained on."""
    for task in _tasks(stream):
        trained, tested = _rows(_all_of(stream, task)), _rows(stream.test(SEEDS[:1], task))
        if trained + tested != _rows(_all_of(whole, task)):
            raise Broken(
                f"in task {task}, the training examples ({trained.total()}) and the held-out "
                f"examples ({tested.total()}) together are not the training examples of `whole`"
            )


def _all_of(stream: Stream, task: int) -> Batch:
    return stream.pick(SEEDS[:1], task, torch.arange(sum(stream.parts(task)))[None])


def _rows(batch: Batch) -> Counter[tuple[bytes, str]]:
    pairs = zip(batch.x[0].flatten(1), batch.y[0].tolist(), strict=True)
    return Counter((row.contiguous().numpy().tobytes(), str(label)) for row, label in pairs)
