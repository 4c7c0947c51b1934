"""The kit on everything in the library: every method, every stream, every memory policy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recollect import SGD, from_arrays, memory
from recollect.memory import Balanced, Chosen, ClassRing, Policy, Reservoir, TaskRing, TaskShares
from recollect.methods import METHODS, Classifier
from recollect.streams import Stream, benchmark
from recollect.streams.joint import Joint
from recollect.testing import (
    check_memory,
    check_method,
    check_stream,
    memory_checks,
    method_checks,
    stream_checks,
)

POLICIES: dict[str, Callable[[int], Policy]] = {
    "reservoir": Reservoir,
    "task ring": TaskRing,
    "whole task ring": partial(TaskRing, whole=True),
    "task shares": TaskShares,
    "chosen": partial(Chosen, compared=2),
    "class ring": ClassRing,
    "balanced": Balanced,
    "class ring that stays": partial(ClassRing, renews=False),
}
SMALLER: dict[str, dict[str, int]] = {"ranpac": {"M": 40}}  # a promise needs no large matrices
DIGITS = ("seq-digits", "perm-digits", "rot-digits", "digits-360")


@pytest.mark.parametrize("name", METHODS)
def test_every_method_conforms(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recollect.methods.hal.ASCENT", 10)  # a promise takes no hundred steps
    check_method(METHODS[name](**SMALLER.get(name, {})))


def test_what_is_skipped_is_known() -> None:
    """Few promises do not apply, and each of them says why."""
    skipped = {
        name: {check.name: check.skipped for check in method_checks(kind) if check.skipped}
        for name, kind in METHODS.items()
    }
    for name, kind in METHODS.items():
        expected = {"task"} - ({"task"} if kind.needs.task_id else set())
        if issubclass(kind, Classifier) or kind.needs.task_id:
            expected |= {"targets"}
        if kind.needs.boundaries or kind.needs.all_data:
            expected |= {"learner"}
        if kind.needs.all_data:
            expected |= {"boundaries", "revisits", "tasks"}
        if name in ("pnn", "pc", "hat"):
            expected |= {"company-vmap", "company-loop"}
        assert set(skipped[name]) == expected, name
    assert "MLP" in skipped["hat"]["company-loop"]


def test_the_page_names_every_check() -> None:
    page = (Path(__file__).parents[2] / "docs" / "conformance.md").read_text("utf-8")
    checks = (method_checks(SGD), stream_checks(arrays("class")), memory_checks(Reservoir))
    for check in chain(*checks):
        assert f"`{check.name}`" in page, check.name


def arrays(scenario: Any, **more: Any) -> Stream:
    generator = np.random.default_rng(0)
    return from_arrays(generator.random((60, 3)), np.arange(60) % 4, scenario=scenario, **more)


STREAMS: dict[str, Callable[[], Stream]] = {
    **{name: benchmark(name).stream for name in DIGITS},
    "classes": partial(arrays, "class", tasks=2),
    "tasks": partial(arrays, "task", task_ids=np.arange(60) // 30),
    "domains": partial(arrays, "domain", task_ids=np.arange(60) // 30),
    "joint": lambda: Joint(benchmark("perm-digits").stream()),
}


@pytest.mark.parametrize("name", STREAMS)
def test_every_stream_conforms(name: str) -> None:
    check_stream(STREAMS[name]())


def test_a_stream_in_the_order_of_its_arrays_is_shared_by_all_seeds() -> None:
    check_stream(arrays("arrival"), shared=True)


@pytest.mark.parametrize("name", DIGITS[:3])
def test_validation_conforms(name: str) -> None:
    spec = benchmark(name)
    check_stream(spec.stream(validation=True), whole=spec.stream())


def test_no_memory_policy_is_left_out() -> None:
    offered = [getattr(memory, name) for name in memory.__all__]
    policies = {each for each in offered if hasattr(each, "slots") and hasattr(each, "draws")}
    assert policies - {Policy} == {type(make(9)) for make in POLICIES.values()}


@pytest.mark.parametrize("name", POLICIES)
def test_every_memory_policy_conforms(name: str) -> None:
    check_memory(POLICIES[name])
