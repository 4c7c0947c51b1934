"""The short soak, of 20,000 examples; the long one, with an eye on the clock, is `make soak`."""

from __future__ import annotations

import sys

import pytest
from benchmarks.soak import GROWTH, METHODS, soak

EXAMPLES = 20_000


@pytest.mark.skipif(sys.platform != "linux", reason="the resident memory is read from /proc")
def test_the_short_soak_keeps_its_memory_flat_and_what_it_learned() -> None:
    # What Python and torch take once, such as an arena of a megabyte, is taken in a first round.
    soak(METHODS[0], EXAMPLES)
    rehearsed, forgot = (soak(method, EXAMPLES) for method in METHODS)
    for outcome in (rehearsed, forgot):
        assert outcome.examples == EXAMPLES
        assert outcome.grown < GROWTH
    assert rehearsed.held_out > forgot.held_out + 0.2
    assert rehearsed.overall > 0.8
