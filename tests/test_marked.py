"""The lists of slow and of torture tests name files that are there."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.slow import SLOW, TORTURE
from tests.torture import FULL, times

HERE = Path(__file__).parent


@pytest.mark.parametrize("name", sorted(SLOW | TORTURE))
def test_a_marked_file_is_there(name: str) -> None:
    assert (HERE / name).is_file()


@pytest.mark.parametrize("name", sorted(TORTURE))
def test_a_torture_file_counts_by_times(name: str) -> None:
    assert "from tests.torture import" in (HERE / name).read_text("utf-8")


def test_the_usual_suite_does_a_tenth() -> None:
    assert times(310) == (310 if FULL else 31)
    assert times(4) == (4 if FULL else 1)
