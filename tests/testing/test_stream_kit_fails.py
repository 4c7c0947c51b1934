"""Every check of a stream can fail, and says why: one broken stream for each."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from recollect import from_arrays
from recollect.streams.stream import Batch, shuffled
from recollect.testing import ConformanceError, check_stream, stream_checks

GENERATOR = np.random.default_rng(0)
WHOLE = from_arrays(GENERATOR.random((60, 3)), np.arange(60) % 4, tasks=2, name="whole")


class Other:
    """A whole stream, of which something is otherwise."""

    def __init__(self, **changes: Any) -> None:
        self._changes = changes

    def __getattr__(self, name: str) -> Any:
        return self._changes[name] if name in self._changes else getattr(WHOLE, name)


def picked(change: Callable[[Tensor, Tensor, Tensor], Batch]) -> Any:
    """A pick after which the seeds, x and y are put through a function."""

    def pick(seeds: Tensor, task: int | Tensor, index: Tensor) -> Batch:
        return change(seeds, *WHOLE.pick(seeds, task, index))

    return pick


calls = count()


def restless(seeds: Tensor, task: int) -> Batch:
    x, y = WHOLE.test(seeds, task)
    return Batch(x + next(calls), y)


def dragging(seeds: Tensor, task: int, epoch: int, start: int, stop: int) -> Tensor:
    return shuffled(
        seeds[:1].expand_as(seeds), task, epoch, start, stop, sum(WHOLE.parts(task))
    ).clone()


def dicing(seeds: Tensor, task: int, epoch: int, start: int, stop: int) -> Tensor:
    torch.rand(1)
    return WHOLE.order(seeds, task, epoch, start, stop)


def still(seeds: Tensor, task: int, epoch: int, start: int, stop: int) -> Tensor:
    return torch.arange(start, stop).repeat(len(seeds), 1)


CASES: dict[str, tuple[str, Any, str]] = {
    "unnamed": ("declarations", Other(name=""), "it has no name"),
    "another setting": ("declarations", Other(setting="online"), "it must be one of class, domain"),
    "without boundaries": ("declarations", Other(boundaries=False), "must have one task"),
    "an empty part": ("declarations", Other(parts=lambda task: (24, 0)), "none may be empty"),
    "classes beyond the head": ("declarations", Other(classes=3), "must be some of 0..2"),
    "twice the same": (
        "order",
        Other(order=lambda *given: WHOLE.order(*given).clamp(min=1)),
        "some example occurs twice or not at all",
    ),
    "pieces": (
        "order",
        Other(order=lambda s, t, e, a, b: shuffled(s, t, e, 0, b - a, b - a) + a),
        "two slices of an order differ from the whole order",
    ),
    "another type": (
        "examples",
        Other(pick=picked(lambda s, x, y: Batch(x.double(), y))),
        "of torch.float64, but are declared as [3, 24, 3] of torch.float32",
    ),
    "not a number": (
        "examples",
        Other(pick=picked(lambda s, x, y: Batch(x * torch.nan, y))),
        "are not all finite",
    ),
    "small labels": (
        "examples",
        Other(pick=picked(lambda s, x, y: Batch(x, y.int()))),
        "labels of task 0 are [3, 24] of torch.int32",
    ),
    "other classes": (
        "labels",
        Other(task_classes=lambda task: (2 * task,)),
        "task 0 is trained on the label 1, but its task_classes are (0,)",
    ),
    "nothing to test": (
        "tests",
        Other(test=lambda s, t: Batch(*(part[:, :0] for part in WHOLE.test(s, t)))),
        "the test set of task 0 is empty",
    ),
    "tests for two": (
        "tests",
        Other(test=lambda s, t: Batch(*(torch.cat([p, p]) for p in WHOLE.test(s, t)))),
        "is for 2 runs: return one for each of K runs",
    ),
    "by position": (
        "index",
        Other(pick=picked(lambda s, x, y: Batch(x + torch.arange(x.shape[1])[:, None], y))),
        "make it depend on its index only",
    ),
    "restless": (
        "pure",
        Other(test=restless),
        "its result differs: x of the test set",
    ),
    "dragged along": (
        "company",
        Other(order=dragging),
        "depends on other runs: the order of task 0",
    ),
    "the same for all": ("seeds", Other(order=still), "pass shared=True if this is intended"),
    "dicing": ("generator", Other(order=dicing), "it draws from torch's global generator"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_broken_promise_is_named(name: str) -> None:
    check, stream, sentence = CASES[name]
    with pytest.raises(ConformanceError) as caught:
        check_stream(stream)
    error = caught.value
    assert error.check == check, str(error)
    assert sentence in error.sentence
    assert error.subject.startswith("Other ")


def test_a_stream_that_is_said_to_be_shared_must_be() -> None:
    with pytest.raises(
        ConformanceError, match="it differs between seeds, but shared=True was passed"
    ):
        check_stream(WHOLE, shared=True)


def test_examples_that_are_tested_and_trained_on_are_found() -> None:
    first = torch.arange(3)[None]
    seen: Any = Other(test=lambda s, t: WHOLE.pick(s[:1], t, first))
    with pytest.raises(
        ConformanceError, match=r"the training examples \(24\) and the held-out examples \(3\)"
    ):
        check_stream(seen, whole=WHOLE)


def test_every_check_has_a_stream_that_breaks_it() -> None:
    broken = {check for check, _, _ in CASES.values()}
    assert {check.name for check in stream_checks(WHOLE)} == broken | {"validation"}


def test_the_stream_that_they_are_made_of_is_whole() -> None:
    check_stream(WHOLE)
    unchanged: Any = Other()
    check_stream(unchanged)
