"""Thousands of malformed inputs: only the documented errors, and not a bit of the learner changes.

20,000 inputs, with those of `test_fuzz_load.py`, `test_fuzz_outliers.py` and the readers: each test
counts those that it tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzzed import fuzzed
from tests.learner.fuzzing import ANSWERS, ERRORS, FEATURES, TROUBLE, learners, whole
from tests.torture import times

from recollect import DivergedError, InputError
from recollect.learner.inputs.outliers import RefusedExample

MANY = 1230
EACH = times(MANY)


class NoTruth:
    """A missing value, as some libraries have it: to compare it is neither true nor false."""

    def __eq__(self, other: object) -> Any:
        return self

    def __bool__(self) -> bool:
        raise TypeError("ambiguous")

    __hash__ = object.__hash__


class NoArray:
    """Calls itself an array and is none."""

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise OSError("gone")


good_y = st.lists(st.integers(0, 2), min_size=1, max_size=5)
bad_numbers = st.sampled_from([np.nan, np.inf, -np.inf, 1e300, -4e38])
junk = st.one_of(
    st.none(), st.text(), st.binary(), st.dictionaries(st.text(), st.integers(), max_size=2),
    st.integers(10**19, 10**400), st.complex_numbers(), st.just(object()), st.just(NoArray()),
    st.just(b""), st.just({1, 2}), st.dates(), st.just(range(0)), st.just(lambda: 0),
)  # fmt: skip
bad_labels = st.one_of(
    st.just(float("nan")), st.just([]), st.just({}), st.just({1}), st.just(np.zeros(2)),
    st.just(NoTruth()), st.just(torch.zeros(2)), st.just((1, float("nan"))), st.just(([],)),
    st.just(bytearray(b"x")), st.just(slice(0)), st.just(np.float32("nan")),
    st.just(torch.tensor(float("nan"))), st.none(), st.just("x" * 1001), st.just((0,) * 1001),
    st.floats(0.1, 0.9), st.just(np.float32(2.5)), st.just(float("inf")),
    st.integers(2**63, 2**90), st.integers(-(2**90), -(2**63) - 1), st.floats(1e19, 1e300),
)  # fmt: skip


@st.composite
def malformed(draw: st.DrawFn, what: str) -> tuple[str, Any, Any]:
    """For which learner, and an input that has this fault."""
    y: Any = draw(good_y)
    n = len(y)
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    x: Any = rng.normal(size=(n, FEATURES)).astype(np.float32)
    who = draw(st.sampled_from(["growing", "fixed", "adam", "transformed"]))
    if what == "shape":
        wrong = st.lists(st.integers(0, 7), max_size=4).filter(lambda s: s != [n, FEATURES])
        x = np.zeros(draw(wrong), np.float32)
    elif what == "type":
        types = [object, "U3", "S2", "c8", "c16", "M8[s]", "i4", "i8", "u1", "u8", "f2", "V4"]
        x = x.astype("f4").astype(draw(st.sampled_from(types)), casting="unsafe")
    elif what == "not finite":
        x = x.astype(draw(st.sampled_from(["f8", "f4"])))
        with np.errstate(over="ignore"):
            x[draw(st.integers(0, n - 1)), draw(st.integers(0, FEATURES - 1))] = draw(bad_numbers)
        forms: list[Callable[[Any], Any]] = [np.asarray, torch.from_numpy, np.ndarray.tolist]
        x = draw(st.sampled_from(forms))(x)
    elif what == "glitch":
        x[draw(st.integers(0, n - 1)), draw(st.integers(0, FEATURES - 1))] = draw(
            st.one_of(st.floats(1e6, 3e38), st.floats(-3e38, -1e6))
        )
    elif what == "too many":
        who = draw(st.sampled_from(["growing", "adam", "transformed"]))
        y = [f"typo {number}" for number in range(10)]
        x = rng.normal(size=(10, FEATURES)).astype(np.float32)
    elif what == "ragged":
        x = x.tolist()
        x[draw(st.integers(0, n - 1))] = draw(st.lists(st.floats(-1, 1), max_size=5))
        x = [*x, [0.0]]
    elif what == "junk":
        x = draw(st.one_of(junk, st.lists(junk, min_size=1, max_size=4)))
    elif what == "tensor":
        odd: list[Callable[[], Any]] = [
            lambda: torch.zeros(n, FEATURES).to_sparse(),
            lambda: torch.zeros(n, FEATURES, device="meta"),
            lambda: torch.zeros(n, FEATURES, dtype=torch.complex64),
            lambda: torch.zeros(n, FEATURES, dtype=torch.int32),
            lambda: [torch.ones(FEATURES, requires_grad=True)] * n,
        ]
        x = draw(st.sampled_from(odd))()
    elif what == "count":
        y = draw(st.lists(st.integers(0, 2), max_size=8).filter(lambda y: len(y) != n))
        kinds: list[Callable[[Any], Any]] = [list, np.array, torch.tensor]
        y = draw(st.sampled_from(kinds))(y)
    elif what == "label":
        y = [*y]
        y[draw(st.integers(0, n - 1))] = draw(bad_labels)
    elif what == "labels":
        wrong_y: list[Callable[[], Any]] = [
            lambda: np.array([y]), lambda: torch.tensor(y, dtype=torch.bfloat16), lambda: NoArray(),
            lambda: torch.tensor(y).float().to_sparse(), lambda: torch.zeros(n, device="meta"),
            lambda: {1: 2}, lambda: float("nan"), lambda: iter(y), lambda: np.array(y)[:, None],
            lambda: (*y, 0), lambda: None,
        ]  # fmt: skip
        y = draw(st.sampled_from(wrong_y))()
    elif what == "unknown":
        who = "fixed"
        y[draw(st.integers(0, n - 1))] = draw(
            st.one_of(st.integers(3), st.integers(max_value=-1), st.text(), st.tuples(st.text()))
        )
    elif what == "trouble":
        who = draw(st.sampled_from(["adam", "transformed"]))
        x[0, 0] = TROUBLE + draw(st.integers(0, len(ANSWERS) - 1))
    if (
        draw(st.booleans())
        and what not in ("unknown", "too many", "label")
        and isinstance(y, list)
        and who != "fixed"
    ):
        y = [f"new {label}" if type(label) is int else label for label in y]
    return who, x, y


KINDS = (
    "shape", "type", "not finite", "glitch", "too many", "ragged", "junk", "tensor", "count",
    "label", "labels", "unknown", "trouble",
)  # fmt: skip


@pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")
@pytest.mark.parametrize("what", KINDS)
def test_observe_refuses_what_is_malformed_and_stays_what_it_was(what: str) -> None:
    tried = Counter[str]()

    @settings(fuzzed, max_examples=EACH)
    @given(malformed(what))
    def observe(case: tuple[str, Any, Any]) -> None:
        who, x, y = case
        learner = learners()[who]
        before = whole(learner)
        allowed: tuple[type[BaseException], ...] = (InputError, DivergedError)
        if what == "trouble" and int(x[0, 0]) - TROUBLE == ERRORS.index(KeyboardInterrupt):
            allowed = (KeyboardInterrupt,)
        with pytest.raises(allowed) as caught:
            # Those that ask for trouble are larger than all others.
            learner.observe(x, y, on_outlier="learn" if what == "trouble" else None)
        assert type(caught.value) in (*allowed, RefusedExample)
        assert str(caught.value).strip()
        assert whole(learner) == before
        tried[who] += 1

    observe()
    assert tried.total() >= EACH, tried


def test_about_16000_inputs_are_tried_here() -> None:
    assert MANY * len(KINDS) == 15_990
