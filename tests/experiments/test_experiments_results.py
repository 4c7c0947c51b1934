"""What many runs come to: means, groups, and a table."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from tests.experiments.some_results import PLAIN

from recollect import InputError, Results
from recollect.experiments import Mean
from recollect.train import Result

RUN = replace(
    PLAIN,
    benchmark="toy",
    method="er",
    buffer=20,
    hyperparameters={"lr": 0.1, "bs": 10, "mbs": 10},
    accuracy={"class": 70.0, "task": 90.0},
    fwt={"class": -10.0, "task": None},
    bwt={"class": -20.0, "task": -1.0},
    forgetting={"class": 20.0, "task": 1.0},
    matrix={"class": [[90.0, None], [70.0, 70.0]], "task": [[90.0, None], [90.0, 90.0]]},
    train_seconds=0.5,
)


def scoring(seed: int, percent: float, **others: Any) -> Result:
    return replace(RUN, seed=seed, accuracy={"class": percent, "task": 90.0}, **others)


def test_a_mean_has_the_deviation_of_a_sample() -> None:
    mean = Mean.of([1.0, 2.0, 3.0, 6.0])
    assert mean is not None
    assert (mean.mean, mean.seeds) == (3.0, 4)
    assert mean.std == pytest.approx(math.sqrt(14 / 3))
    assert str(mean) == "3.00 ±2.16"


def test_one_value_has_no_deviation_and_a_missing_one_no_mean() -> None:
    assert Mean.of([4.0]) == Mean(4.0, 0.0, 1)
    assert Mean.of([]) is None
    assert Mean.of([None, None]) is None
    assert Mean.of([1.0, None]) is None
    assert Mean.of([0.0, 0.0]) == Mean(0.0, 0.0, 2)


def test_runs_that_differ_in_their_seed_alone_are_one_group() -> None:
    faster = {"lr": 0.5, "bs": 10, "mbs": 10}
    runs = [
        scoring(0, 60.0),
        scoring(0, 10.0, hyperparameters=faster),
        scoring(1, 80.0, train_seconds=1.5),
        scoring(0, 20.0, buffer=40),
        scoring(0, 30.0, method="der"),
        scoring(0, 40.0, benchmark="other"),
        scoring(0, 50.0, epochs=2),
        scoring(0, 55.0, validation=True),
        scoring(1, 20.0, hyperparameters=dict(reversed(faster.items()))),
    ]
    first, second, *others = Results(runs).summaries()
    assert [run.seed for run in first.runs] == [0, 1]
    assert first.first is runs[0]
    accuracy = first.mean("accuracy", "class")
    assert accuracy is not None
    assert (accuracy.mean, accuracy.seeds) == (70.0, 2)
    assert accuracy.std == pytest.approx(math.sqrt(200))
    assert first.mean("forgetting", "class") == Mean(20.0, 0.0, 2)
    assert first.mean("fwt", "class") == Mean(-10.0, 0.0, 2)
    assert first.mean("fwt", "task") is None
    assert first.mean("bwt", "task") == Mean(-1.0, 0.0, 2)
    assert first.seconds == 1.0
    assert [run.accuracy["class"] for run in second.runs] == [10.0, 20.0]
    assert [len(other.runs) for other in others] == [1, 1, 1, 1, 1]


def low_ones(*accuracies: float, diverged: int | None = None) -> list[int]:
    """The seeds of those that lie far below the others."""
    runs = [scoring(n, value, diverged=n == diverged) for n, value in enumerate(accuracies)]
    (summary,) = Results(runs).summaries()
    return [run.seed for run in summary.far_below]


NINE = (50.0, 52.0, 53.0, 54.0, 55.0, 56.0, 57.0, 58.0, 59.0)


def test_a_run_far_below_the_others_is_found() -> None:
    # The median is 54.5 and the median distance from it 2.5 (robust deviation 3.71): 18.5 below.
    assert low_ones(*NINE, 10.9) == [9]
    assert low_ones(*NINE, 35.9) == [9]
    assert low_ones(*NINE, 36.0) == []
    assert low_ones(*NINE, 99.0) == [], "above is another matter"
    assert low_ones(*NINE, 10.9, 12.0) == [9, 10]


def test_far_below_is_at_least_fifteen_points() -> None:
    # All but one alike: a deviation of zero counts as one point, and five of them are not enough.
    assert low_ones(80.0, 80.0, 80.0, 80.0, 65.0) == []
    assert low_ones(80.0, 80.0, 80.0, 80.0, 64.9) == [4]


def test_runs_that_scatter_widely_are_not_far_below() -> None:
    assert low_ones(20.0, 40.0, 60.0, 80.0, 90.0) == []


def test_three_runs_cannot_tell_which_of_them_is_far_below() -> None:
    assert low_ones(80.0, 80.0, 10.0) == []
    assert low_ones(80.0, 80.0, 80.0, 10.0) == [3]


def test_a_run_that_diverged_is_not_counted_as_far_below_too() -> None:
    assert low_ones(*NINE, 10.9, diverged=9) == []


def test_any_setting_can_show_a_run_far_below() -> None:
    runs = [scoring(n, 20.0) for n in range(5)]
    runs[3] = replace(runs[3], accuracy={**runs[3].accuracy, "task": 50.0})
    (summary,) = Results(runs).summaries()
    assert summary.far_below == (runs[3],)


def test_far_below_is_said_and_in_the_mean() -> None:
    runs = Results([scoring(n, value) for n, value in enumerate((*NINE, 10.9))])
    (summary,) = runs.summaries()
    assert summary.remarks == "1 far below"
    assert summary.mean("accuracy", "class") == Mean.of([*NINE, 10.9])
    assert "(10 seeds, 1 far below; " in str(runs)


def test_a_misspelt_score_or_setting_is_refused() -> None:
    (summary,) = Results([scoring(0, 60.0), scoring(1, 80.0)]).summaries()
    with pytest.raises(InputError, match=r"unknown score 'acuracy': did you mean 'accuracy'\?"):
        summary.mean("acuracy", "class")
    with pytest.raises(InputError, match=r"unknown setting 'Class-IL'.* \(known: class, task\)"):
        summary.mean("accuracy", "Class-IL")
    assert summary.mean("accuracy", "domain") is None


def test_results_are_shown_at_a_prompt_and_can_be_added() -> None:
    ours, theirs = Results([scoring(0, 60.0)]), Results([replace(RUN, method="sgd", buffer=None)])
    both = ours + theirs
    assert isinstance(both, Results)
    assert list(both) == [*ours, *theirs]
    assert repr(both) == str(both)
    assert repr(Results([])) == "Results([])"


def test_results_are_a_sequence_that_prints_a_table() -> None:
    runs = [scoring(0, 60.0), scoring(1, 80.0), replace(RUN, buffer=None, method="sgd")]
    results = Results(runs)
    assert len(results) == 3
    assert list(results) == runs
    assert results[1] == runs[1]
    assert results[-1] == runs[2]
    assert isinstance(results[:2], Results)
    assert list(results[:2]) == runs[:2]
    assert list(results[::-2]) == runs[::-2]
    assert len(results[:2].summaries()) == 1
    assert str(results).splitlines() == [
        "toy er buffer 20: Class-IL 70.00 ±14.14, Task-IL 90.00 ±0.00 "
        "(2 seeds; lr 0.1, bs 10, mbs 10)",
        "toy sgd: Class-IL 70.00, Task-IL 90.00 (1 seed; lr 0.1, bs 10, mbs 10)",
    ]
