"""Every check of a method can fail, and says why: one broken method for each."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tests.testing import broken_declarations, broken_fleets, broken_runs
from tests.testing.broken import CASES, Plain

from recollect import SGD, Method, hyper
from recollect.testing import ConformanceError, check_method, method_checks

MODULES = (broken_declarations, broken_runs, broken_fleets)  # which note their cases
FIRST = ("declarations", "draws", "fields", "writes", "steps", "finite", "generator", "seeds")


@pytest.mark.parametrize(
    ("check", "sentence", "kind"), CASES, ids=[f"{kind.__name__}" for _, _, kind in CASES]
)
def test_a_broken_promise_is_named(check: str, sentence: str, kind: type[Method]) -> None:
    checks = {each.name: each for each in method_checks(kind)}
    with pytest.raises(ConformanceError) as caught:
        check_method(kind) if check in FIRST else checks[check]()
    error = caught.value
    assert (error.subject, error.check) == (kind.__name__, check)
    assert sentence in error.sentence
    assert str(error).startswith(f"{kind.__name__} breaks the promise {check!r}: ")


def test_every_check_has_a_method_that_breaks_it() -> None:
    assert {check.name for check in method_checks(SGD)} == {check for check, _, _ in CASES}


@dataclass(frozen=True)
class Worded(Plain):
    """Has a word for a hyper-parameter."""

    mode: str = "fast"


@dataclass(frozen=True)
class Fractional(Plain):
    """Has half a step."""

    steps: int = hyper(1.5, "steps taken on every batch")


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (Worded, "mode of Plain must be a number, not 'fast'"),
        (Fractional, "steps of Plain must be a whole number of at least 1, not 1.5"),
    ],
)
def test_a_default_that_is_refused_is_named(kind: type[Method], sentence: str) -> None:
    with pytest.raises(ConformanceError, match=f"'declarations': {sentence}"):
        check_method(kind)
