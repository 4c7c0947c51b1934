"""The search: the paper's grid and criterion, whole grids as fleets, the best on the test set."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from recollect import from_arrays, search
from recollect.cli.main import main
from recollect.errors import InputError
from recollect.experiments import Results, run
from recollect.experiments.bayes import bayesian
from recollect.experiments.plan import plan, points_of
from recollect.experiments.search import by_criterion, criterion, grid
from recollect.experiments.store import Store
from recollect.methods import METHODS
from recollect.streams import benchmark

has_optuna = pytest.mark.skipif(
    importlib.util.find_spec("optuna") is None, reason="Optuna is not installed"
)


def test_the_grid_is_the_papers_unless_values_are_given() -> None:
    known, kind = benchmark("seq-mnist"), METHODS["derpp"]
    found = grid(known, kind)
    assert found == {"lr": [0.03, 0.1], "alpha": [0.2, 0.5, 1.0], "beta": [0.2, 0.5, 1.0]}
    assert len(points_of(found)) == 18
    given = grid(known, kind, {"lr": [0.5], "mbs": [10, 20]})
    assert given == {**found, "lr": [0.5], "mbs": [10, 20]}
    with pytest.raises(InputError, match="no grid"):
        grid(known, METHODS["joint"])


def test_a_grid_is_one_fleet_for_every_shape() -> None:
    known, kind = benchmark("seq-digits"), METHODS["derpp"]
    points = points_of({"lr": [0.03, 0.1], "alpha": [0.2, 0.5], "bs": [10, 20]})
    fleets = plan(kind, values=points, benchmark=known, buffer=50, seeds=[0, 1, 2]).fleets
    assert [(batch, len(runs)) for batch, _, runs in fleets] == [(10, 12), (20, 12)]
    seeds = [each.seed for each in fleets[0][2]]
    assert seeds == [0, 1, 2] * 4


def test_the_lowest_rmse_of_values_is_the_best_and_is_what_is_shown() -> None:
    x = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    stream = from_arrays(
        x, x.sum(1), scenario="domain", task_ids=np.repeat([0, 1], 100), target="regression"
    )
    found = search(stream, "er", buffer=20, lr=[0.0001, 0.03], search_seeds=1, seeds=1, workers=1)
    assert found.best == {"lr": 0.03}
    rmse = [one.summary.first.accuracy["rmse"] for one in found.tried]
    assert rmse == sorted(rmse)
    assert f"1. lr 0.03: RMSE {rmse[0]:.3g}" in str(found)


def test_the_best_is_the_best_by_the_papers_criterion() -> None:
    results = run("seq-digits", "er", buffer=20, seeds=2, lr=[0.001, 0.1], validation=True,
                  workers=1)  # fmt: skip
    ranked = by_criterion(results)
    by_hand = {
        lr: sum(
            (each.accuracy["class"] + each.accuracy["task"]) / 2
            for each in results
            if each.hyperparameters["lr"] == lr
        )
        / 2
        for lr in (0.001, 0.1)
    }
    assert [one.values["lr"] for one in ranked] == sorted(by_hand, key=lambda lr: -by_hand[lr])
    assert ranked[0].score.mean == pytest.approx(max(by_hand.values()))
    assert criterion(results[0]) == pytest.approx(sum(results[0].accuracy.values()) / 2)


def test_the_command_tries_chooses_and_tests(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["search", "seq-digits", "er", "--buffer", "20", "--lr", "0.001", "0.1",
                 "--seeds", "2", "--workers", "1"]  # fmt: skip
    assert main(arguments) == 0
    said = capsys.readouterr()
    assert "2 configurations" in said.err
    tried = Store().runs(validation=True)
    assert [each.hyperparameters["lr"] for each in tried] == [0.001, 0.1]
    best = by_criterion(Results(tried))[0].values["lr"]
    tested = Store().runs(validation=False)
    assert [(each.hyperparameters["lr"], each.seed) for each in tested] == [(best, 0), (best, 1)]
    mean = Results(tested).summaries()[0].mean("accuracy", "class")
    assert str(mean) in said.out
    assert main(arguments) == 0
    assert "2 of 2 runs are already in the store" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["seq-digits", "sgd", "--buffer", "20"], "has no memory"),
        (["seq-digits", "er", "--buffer", "0"], "at least 1"),
        (["seq-digits", "er", "--buffer", "20", "--alpha", "1"], "no hyper-parameter"),
        (["seq-digits", "er", "--buffer", "20", "--search-seeds", "x"], "cannot parse the seeds"),
        (["seq-digits", "joint"], "no grid"),
        (["seq-digits", "mind"], "unknown method"),
    ],
)
def test_what_makes_no_sense_is_refused(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["search", *arguments]) == 2
    assert reason in capsys.readouterr().err
    assert Store().runs() == []


@has_optuna
def test_bayesian_search_asks_in_batches_and_finds_the_top() -> None:
    asked: list[int] = []

    def score(points: Sequence[Mapping[str, float]]) -> list[float]:
        asked.append(len(points))
        return [-abs(point["lr"] - 0.05) for point in points]

    tried = bayesian({"lr": [0.001, 1.0], "alpha": [0.5], "mbs": [4, 64]}, 40, score, batch=16)
    assert asked == [16, 16, 8]
    assert all(0.001 <= point["lr"] <= 1 and point["alpha"] == 0.5 for point in tried)
    assert all(point["mbs"] == int(point["mbs"]) for point in tried)
    early, late = (
        sum(abs(math.log(point["lr"] / 0.05)) for point in part) / len(part)
        for part in (tried[:16], tried[-8:])
    )
    assert late < early
    again = bayesian({"lr": [0.001, 1.0], "alpha": [0.5], "mbs": [4, 64]}, 40, score, batch=16)
    assert again == tried
    with pytest.raises(InputError, match="at least 1"):
        bayesian({"lr": [0.1, 1.0]}, 0, score)


@has_optuna
def test_whole_numbers_of_a_method_are_searched_as_whole_numbers() -> None:
    words = "pc --lr 0.01 0.1 --lambda 10 --passes 1 4 --trials 6 --seeds 1 --search-seeds 1"
    assert main(["search", "seq-digits", *words.split(), "--workers", "1"]) == 0
    passes = {run.hyperparameters["passes"] for run in Store().runs(validation=True)}
    assert len(passes) > 1
    assert passes <= {1, 2, 3, 4}


@has_optuna
def test_the_command_searches_with_optuna() -> None:
    assert main(["search", "seq-digits", "er", "--buffer", "20", "--trials", "3", "--seeds", "1",
                 "--lr", "0.01", "0.1", "--workers", "1"]) == 0  # fmt: skip
    rates = [each.hyperparameters["lr"] for each in Store().runs(validation=True)]
    assert len(set(rates)) == 3
    assert all(0.01 <= rate <= 0.1 for rate in rates)
