"""Rows as features: numbers, indicators and categories, against a slow and obvious reference."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.errors import InputError
from recollect.feeds.columns import Column, Handling, inferred_columns
from recollect.feeds.record import Malformed
from recollect.feeds.table import Table

NAMES = ["speed", "on", "colour", "weight"]
COLUMNS = [Column("number", 1), Column("boolean", 1), Column("category", 2), Column("number")]
TRUTH = {"yes": 1, "no": 0}

WHOLE = st.integers(-50, 50)
ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), WHOLE), st.sampled_from([None, "yes", "no"]),
        st.sampled_from([None, "red", "blue", "green"]), st.one_of(st.none(), WHOLE),
    ),
    max_size=80,
)  # fmt: skip


def reference(rows: list[tuple[Any, ...]]) -> list[list[float]]:
    """Features as the documentation has them, from all rows so far."""
    found: list[list[float]] = []
    known: list[list[float]] = [[], [], []]
    words: list[str] = []
    for speed, on, colour, weight in rows:
        filled: list[float] = []
        for value, earlier in zip((speed, TRUTH.get(on), weight), known, strict=True):
            middle = statistics.median_low(earlier[-31:]) if earlier else 0
            filled.append(middle if value is None else value)
            earlier += [] if value is None else [value]
        if colour is not None and colour not in words and len(words) < 2:
            words.append(colour)
        inputs = [0, 0, 0]
        if colour is not None:
            inputs[words.index(colour) if colour in words else 2] = 1
        found.append([*filled, speed is None, on is None, *inputs])
    return found


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, cut=st.integers(0, 80))
def test_features_are_those_of_the_reference_also_after_a_restore(
    rows: list[tuple[Any, ...]], cut: int
) -> None:
    table, found = Table(NAMES, COLUMNS, Handling()), []
    for number, row in enumerate(rows):
        if number == cut:
            saved = table.now().saved()
            table = Table(NAMES, COLUMNS, Handling())
            table.restore(saved)
        found.append(table.features(row).tolist())
    assert found == reference(rows)


def test_a_row_that_is_refused_changes_nothing() -> None:
    table, other = (Table(NAMES, COLUMNS, Handling()) for _ in range(2))
    for row in ([1, "yes", "red", 2], [3, "no", "blue", 4]):
        table.features(row)
        other.features(row)
    for bad in ([5, "maybe", "green", 6], ["fast", "yes", "green", 6], [1e39, "no", "green", 6]):
        with pytest.raises(Malformed):
            table.features(bad)
    assert table.now().saved() == other.now().saved()
    last = [None, None, "green", None]
    np.testing.assert_array_equal(table.features(last), other.features(last))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "2.5", ""], Column("number", 1)),
        (["1", "2.5", "3"], Column("number")),
        (["yes", "no", "TRUE"], Column("boolean")),
        (["red", "blue", "NA"], Column("category", 32)),
        (["red", "1", "2"], Column("number")),
        ([""] * 5, Column("number", 1)),
    ],
)
def test_the_first_values_say_what_a_column_is(values: list[str], kind: Column) -> None:
    assert inferred_columns(["a"], {0: values}, Handling(), untyped=True) == {0: kind}


@pytest.mark.parametrize("value", ["1,5", "-0,25", "1.234,5", "1,234.5", "1 234,5", "1,234,567"])
def test_numbers_with_commas_are_no_categories(value: str) -> None:
    with pytest.raises(InputError, match=f"numbers with commas, such as '{value}'"):
        inferred_columns(["a"], {0: [value] * 9}, Handling(), untyped=True)
    found = inferred_columns(["a"], {0: [value] * 9}, Handling(categorical=["a"]), untyped=True)
    assert found == {0: Column("category", 32)}


@pytest.mark.parametrize(
    "value",
    ["2026-01-02T10:00:00+02:00", "2026-01-02T10:00:00Z", "2026-01-02", "2026/1/2 10:00",
     "02-01-2026", "1/2/26", "2.1.2026", "9:30"],
)  # fmt: skip
def test_times_are_not_categories_even_if_they_occur_again(value: str) -> None:
    with pytest.raises(InputError, match="column 'a' has times"):
        inferred_columns(["a"], {0: [value] * 9}, Handling(), untyped=True)


@pytest.mark.parametrize("value", ["3_47", "1_000", "12-34-56", "10.0.0.1"])
def test_codes_are_neither_numbers_nor_times(value: str) -> None:
    found = inferred_columns(["a"], {0: [value] * 9}, Handling(), untyped=True)
    assert found == {0: Column("category", 32)}
