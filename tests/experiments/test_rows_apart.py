"""Rows that differ in optimiser, schedule, epochs or split say so, wherever they are shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.experiments.some_results import made_by

import recollect
from recollect import InputError, Results
from recollect.cli.compare import _selected
from recollect.cli.main import main
from recollect.cli.run import ALL_DIVERGED
from recollect.experiments.exports import exported
from recollect.experiments.report import build
from recollect.experiments.store import Store
from recollect.train import Result
from recollect.train.provenance import Provenance

OPTIMISERS = ["sgd", "Adam, constant", "Adam, cosine per task", "SGD nesterov, step per stream"]


@pytest.fixture(scope="module")
def plain() -> list[Result]:
    return list(recollect.run("seq-digits", "sgd", seeds=2, workers=1))


def with_optimisers(runs: list[Result]) -> list[Result]:
    """The same numbers under other names, with other rates: only the words are looked at."""
    return [
        replace(run, optimiser=each, hyperparameters={**run.hyperparameters, "lr": 0.1 / rate})
        for rate, each in enumerate(OPTIMISERS, 1)
        for run in runs
    ]


def test_every_table_says_optimiser_and_schedule(
    plain: list[Result], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = Results(with_optimisers(plain))
    store = Store(tmp_path / "runs.sqlite")
    store.add(results)
    assert main(["results", "--store", str(store.path)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for text in (str(results), exported(results, ".md"), exported(results, ".tex"), shown):
        for words in ("schedule cosine per task", "optimiser SGD nesterov"):
            assert words in text, text
        assert text.count("optimiser Adam") == 2
    rows = build(results)["rows"]
    assert sorted(str(row["optimiser"]) for row in rows) == [
        "{'optimiser': 'Adam', 'schedule': 'cosine per task'}",
        "{'optimiser': 'Adam'}",
        "{'optimiser': 'SGD nesterov', 'schedule': 'step per stream'}",
        "{'optimiser': 'SGD'}",
    ]


def test_tables_say_epochs_and_split_where_rows_differ(plain: list[Result]) -> None:
    assert "epochs" not in str(Results(plain))
    longer = [replace(run, epochs=5) for run in plain]
    first, second = str(Results([*plain, *longer])).splitlines()
    assert "epochs 1" in first
    assert "epochs 5" in second
    split = [replace(run, validation=True) for run in plain]
    assert "epochs 5" in str(Results(longer)), "even alone, if they are not the benchmark's"
    assert "validation split" in str(Results(split))
    assert "epochs 5, validation split." in exported(
        Results([replace(run, validation=True) for run in longer]), ".md"
    )
    first, second = str(Results([*plain, *split])).splitlines()
    assert "test set" in first
    assert "validation split" in second


def test_optimiser_and_schedule_select_runs(plain: list[Result]) -> None:
    runs = with_optimisers(plain)

    def found(text: str) -> set[str]:
        return {run.optimiser for run in _selected(runs, text)}

    assert found("optimiser=Adam") == {OPTIMISERS[1], OPTIMISERS[2]}
    assert found("optimiser=adam,schedule=cosine") == {OPTIMISERS[2]}
    assert found("optimiser=SGD") == {OPTIMISERS[0]}
    assert found("schedule=step per stream") == {OPTIMISERS[3]}
    with pytest.raises(InputError, match="can be Adam, SGD, SGD nesterov"):
        found("optimiser=RMSprop")


def test_tables_of_means_say_how_many_runs_diverged(plain: list[Result]) -> None:
    lost = Results([replace(plain[0], diverged=True), plain[1]])
    for suffix in (".md", ".tex"):
        assert "2, 1 diverged" in exported(lost, suffix)


def test_a_command_whose_runs_all_diverged_has_a_status_of_its_own(
    bare_machine: None, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", "seq-digits", "sgd", "--seeds", "1", "--workers", "1", "--lr", "1e30"]
    assert main(words) == ALL_DIVERGED
    assert "all runs diverged" in capsys.readouterr().err


def test_runs_of_older_code_are_counted(
    plain: list[Result], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(tmp_path / "runs.sqlite")
    older = [replace(run, code="0123456789ab") for run in plain]
    store.add(made_by(Provenance(created="2026-01-01"), older))
    store.add(made_by(Provenance(created="2026-02-01"), plain))
    assert main(["results", "--store", str(store.path)]) == 0
    assert (
        "2 runs of older versions of the code not shown: use --all-code" in capsys.readouterr().err
    )
    point = replace(older[0], hyperparameters={**older[0].hyperparameters, "lr": 0.5})
    store.add(made_by(Provenance(created="2026-01-01"), [point]))
    assert main(["results", "--store", str(store.path)]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "the rows of sgd on seq-digits come from 2 versions of the code" in said


def test_saved_results_are_read_back(plain: list[Result], tmp_path: Path) -> None:
    Results(plain[:1]).save(tmp_path / "a.json")
    Results(plain[1:]).save(tmp_path / "b.json")
    assert [*Results.load(tmp_path / "a.json", str(tmp_path / "b.json"))] == plain


def test_equal_runs_and_single_seeds_are_said(plain: list[Result]) -> None:
    (same,) = recollect.compare(plain, plain)
    assert str(same.differences[0]) == "Class-IL: A and B are equal in all of 2 paired seeds"
    other = replace(plain[0], accuracy={n: v + 1 for n, v in plain[0].accuracy.items()}, epochs=2)
    (one,) = recollect.compare(plain[:1], [other])
    assert str(one.differences[0]).endswith("1 paired seed; one seed cannot be tested")
    assert "SGD with epochs 2 is 1.0 points better than SGD with epochs 1" in str(one)
