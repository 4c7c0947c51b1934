"""Batches with rows that cannot be trusted: all others are learned, as if they had come alone."""

from __future__ import annotations

import copy
from collections import Counter
from functools import cache
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzzed import fuzzed
from tests.learner.fuzzing import FEATURES, learners
from tests.learner.some_stream import engine_of
from tests.torture import times

from recollect import Learner

EACH = times(1000)

values = st.one_of(
    st.sampled_from([np.nan, np.inf, -np.inf, 3.4e38, -3.4e38]), st.floats(1e5, 3e38),
    st.floats(-3e38, -1e5),
)  # fmt: skip
objects = st.one_of(
    st.none(), st.text(max_size=3), st.lists(st.floats(-1, 1), max_size=FEATURES - 1),
    st.lists(st.one_of(st.none(), st.text(max_size=2)), min_size=FEATURES, max_size=FEATURES),
    st.just({}), st.floats(-1, 1), st.just(object()), st.just([[0.0] * FEATURES]),
)  # fmt: skip


@cache
def used(who: str) -> Learner:
    """A learner that has seen enough to know what is usual."""
    learner, rng = copy.deepcopy(learners()[who]), np.random.default_rng(1)
    for _ in range(30):
        x = rng.normal(size=(10, FEATURES)).astype(np.float32)
        learner.observe(x, rng.integers(0, 3, 10))
    return learner


def learned(learner: Learner) -> list[bytes]:
    tensors = engine_of(learner).fleet.tensors()
    return [name.encode() + tensor.numpy().tobytes() for name, tensor in tensors.items()]


@st.composite
def batches(draw: st.DrawFn) -> tuple[str, Any, list[int], list[int]]:
    """For which learner, a batch with its labels, and which of its rows are bad."""
    n = draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    x: Any = rng.normal(size=(n, FEATURES)).astype(np.float32)
    # The fifth of one label would be accepted.
    bad = sorted(draw(st.sets(st.integers(0, n - 1), min_size=1, max_size=4)))
    unreadable = n > len(bad) and draw(st.booleans())
    rows: Any = x.tolist() if unreadable else x
    for row in bad:
        if unreadable and draw(st.booleans()):
            rows[row] = draw(objects)
        else:
            rows[row][draw(st.integers(0, FEATURES - 1))] = draw(values)
    who = draw(st.sampled_from(["growing", "fixed", "adam"]))
    if n - len(bad) == 1 and who == "adam":  # batch normalisation cannot learn from one example
        who = "growing"
    return who, rows, rng.integers(0, 3, n).tolist(), bad


def test_the_others_of_a_batch_are_learned() -> None:
    tried = Counter[str]()

    @settings(fuzzed, max_examples=EACH)
    @given(batches())
    def observe(case: tuple[str, Any, list[int], list[int]]) -> None:
        who, x, y, bad = case
        one, other = copy.deepcopy(used(who)), copy.deepcopy(used(who))
        good = [row for row in range(len(y)) if row not in bad]
        loss = one.observe(x, y, on_outlier="skip")
        if good:
            rows = np.array([x[row] for row in good], np.float32)
            assert loss == other.observe(rows, [y[row] for row in good])
        else:
            assert np.isnan(loss)
        assert learned(one) == learned(other)
        assert (one.seen, one.steps, one.classes) == (other.seen, other.steps, other.classes)
        assert one.metrics().accuracy == other.metrics().accuracy
        assert one.metrics().left_out == len(bad)
        assert one.arrived == other.seen + len(bad)
        tried[who] += 1

    observe()
    assert tried.total() >= EACH, tried
