"""The metrics: examples worked out by hand, and what holds for every matrix."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.train.evaluate import Matrix, Scores, scores

NAN = float("nan")


def test_three_tasks_by_hand() -> None:
    matrix = np.array([[90.0, 30.0, NAN], [60.0, 80.0, 20.0], [70.0, 40.0, 100.0]])
    untrained = np.array([50.0, 10.0, 30.0])
    assert scores(matrix, untrained) == Scores(
        accuracy=(70 + 40 + 100) / 3,
        fwt=((30 - 10) + (20 - 30)) / 2,
        bwt=((70 - 90) + (40 - 80)) / 2,
        forgetting=((90 - 70) + (80 - 40)) / 2,
    )


def test_forgetting_compares_with_the_best_ever_and_transfer_with_the_first() -> None:
    matrix = np.array([[50.0, 0.0, NAN], [80.0, 60.0, 0.0], [70.0, 90.0, 100.0]])
    result = scores(matrix, np.zeros(3))
    assert result.bwt == pytest.approx(((70 - 50) + (90 - 60)) / 2)
    assert result.forgetting == pytest.approx(((80 - 70) + 0) / 2)


def test_tasks_ahead_do_not_matter() -> None:
    """Whether all tasks were measured after each, or only the next one."""
    full = np.array([[90.0, 30.0, 5.0], [60.0, 80.0, 20.0], [70.0, 40.0, 100.0]])
    partial = full.copy()
    partial[0, 2] = NAN
    assert scores(full, np.zeros(3)) == scores(partial, np.zeros(3))


@pytest.mark.parametrize(
    ("matrix", "untrained"),
    [
        ([[60.0, 80.0]], [10.0, 10.0]),
        ([[70.0]], [10.0]),
        ([[90.0, 20.0], [50.0, 90.0]], None),
    ],
    ids=["all tasks at once", "one task", "without the untrained network"],
)
def test_without_a_sequence_of_tasks_there_is_only_accuracy(
    matrix: list[list[float]], untrained: list[float] | None
) -> None:
    before = None if untrained is None else np.array(untrained)
    assert scores(np.array(matrix), before) == Scores(70.0, None, None, None)


@st.composite
def measured(draw: st.DrawFn) -> tuple[Matrix, Matrix]:
    """A matrix of accuracies, known up to the next task, and those of the untrained network."""
    tasks = draw(st.integers(2, 6))
    percent = st.floats(0, 100)
    rows = draw(
        st.lists(st.lists(percent, min_size=tasks, max_size=tasks), min_size=tasks, max_size=tasks)
    )
    matrix = np.array(rows)
    matrix[np.triu_indices(tasks, 2)] = NAN
    return matrix, np.array(draw(st.lists(percent, min_size=tasks, max_size=tasks)))


@given(measured())
def test_what_holds_for_every_matrix(both: tuple[Matrix, Matrix]) -> None:
    matrix, untrained = both
    result = scores(matrix, untrained)
    assert result.fwt is not None
    assert result.bwt is not None
    assert result.forgetting is not None
    assert result.forgetting >= 0
    assert result.forgetting >= -result.bwt - 1e-9
    assert 0 <= result.accuracy <= 100 + 1e-9
    assert max(abs(result.fwt), abs(result.bwt), result.forgetting) <= 100 + 1e-9


@given(measured())
def test_a_network_that_never_changes_transfers_and_forgets_nothing(
    both: tuple[Matrix, Matrix],
) -> None:
    _, untrained = both
    result = scores(np.tile(untrained, (len(untrained), 1)), untrained)
    assert (result.fwt, result.bwt, result.forgetting) == (0.0, 0.0, 0.0)
