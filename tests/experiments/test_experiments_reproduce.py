"""The rows of the paper's table, their jobs, and the comparison."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.experiments.some_results import PLAIN

from recollect import InputError, Results
from recollect.experiments.paper import Published, Verdict
from recollect.experiments.reproduce import Cell, cells, compare, plans_of, stream_or_stand_in
from recollect.streams import DataUnavailable, benchmark
from recollect.streams.data import catalogue


@pytest.fixture
def nothing_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without MNIST and without a network."""
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("RECOLLECT_OFFLINE", "1")
    monkeypatch.delenv("RECOLLECT_DATA", raising=False)
    monkeypatch.setattr(catalogue, "_loaded", {})


def scored(*accuracies: float, method: str = "derpp", buffer: int | None = 200) -> Results:
    shared = replace(PLAIN, method=method, buffer=buffer, hyperparameters={})
    return Results(
        [
            replace(shared, seed=seed, accuracy={"class": value, "task": 99.0})
            for seed, value in enumerate(accuracies)
        ]
    )


def test_the_rows_are_every_method_with_every_published_buffer() -> None:
    without = [Cell("joint", None), Cell("sgd", None)]
    for name, sizes in (("seq-mnist", (200, 500, 5120)), ("mnist-360", (200, 500, 1000))):
        found = cells(benchmark(name))
        assert found[:2] == without
        assert {row.buffer for row in found[2:]} - {None} == set(sizes)
        for method in ("er", "mer", "der", "derpp"):
            assert [Cell(method, s) for s in sizes] == [
                row for row in found if row.method == method
            ]
    assert not [row for row in cells(benchmark("mnist-360")) if row.method in ("agem", "fdr")]
    assert cells(benchmark("seq-digits")) == cells(benchmark("seq-mnist"))


def test_the_rows_can_be_chosen() -> None:
    known = benchmark("seq-mnist")
    assert cells(known, ["er", "sgd"], [7, 9]) == [Cell("er", 7), Cell("er", 9), Cell("sgd", None)]
    assert cells(known, ["sgd", "sgd"]) == [Cell("sgd", None)]
    with pytest.raises(InputError, match="did you mean 'derpp'"):
        cells(known, ["derp"])


def test_a_title_is_the_same_row_as_its_name() -> None:
    assert cells(benchmark("seq-mnist"), ["DER++", "derpp"], [7]) == [Cell("derpp", 7)]


def test_a_row_is_a_plan_with_the_papers_choice_for_its_buffer() -> None:
    known = benchmark("digits-360")
    rows = [Cell("er", 500), Cell("er", 1000), Cell("sgd", None)]
    plans = plans_of(known, rows, [4, 6])
    assert [each.buffer for each in plans] == [500, 1000, None]
    jobs = [job for each in plans for job in each.jobs(known.stream())]
    assert [(job.kind.name, job.buffer, job.batch, job.replay) for job in jobs] == [
        ("er", 500, 1, 16),
        ("er", 1000, 4, 16),
        ("sgd", None, 4, 0),
    ]
    assert all([run.seed for run in job.runs] == [4, 6] for job in jobs)


@pytest.mark.usefixtures("nothing_here")
def test_rows_are_checked_without_data() -> None:
    with pytest.raises(InputError, match="at least 1 example, not 0"):
        plans_of(benchmark("seq-mnist"), [Cell("sgd", None), Cell("er", 0)], [0])


def judged(*accuracies: float) -> Verdict:
    (summary,) = scored(*accuracies).summaries()
    found = compare(benchmark("seq-mnist"), summary, "class").verdict
    assert found is not None
    return found


def test_a_comparison_has_our_mean_the_papers_and_a_verdict() -> None:
    (summary,) = scored(85.0, 87.0).summaries()
    compared = compare(benchmark("seq-mnist"), summary, "class")
    assert (compared.ours.mean, compared.ours.seeds) == (86.0, 2)
    assert compared.ours.std == pytest.approx(2**0.5)
    assert compared.paper == Published(85.61, 1.40)
    assert judged(85.0, 87.0).kind == "equal"
    assert judged(70.0, 70.1).kind == "below"
    assert judged(95.0, 95.1).kind == "above"


def test_a_comparison_counts_the_seeds() -> None:
    """81.5 is 4.11 below: within three standard errors of two such seeds, not of twenty."""
    assert (judged(80.0, 83.0).kind, judged(80.0, 83.0).weak) == ("equal", True)
    many = judged(*[80.0, 83.0] * 10)
    assert (many.kind, many.weak) == ("below", False)


def test_a_run_that_broke_down_makes_a_verdict_weak() -> None:
    whole = judged(*[85.0, 86.0] * 5)
    assert (whole.kind, whole.weak) == ("equal", False)
    broken = judged(*[85.0, 86.0] * 5, 10.0)
    assert (broken.kind, broken.weak) == ("equal", True), "its deviation covers the difference"


def test_there_is_no_verdict_without_the_papers_data_or_row() -> None:
    (summary,) = scored(85.0).summaries()
    stand_in = compare(benchmark("seq-digits"), summary, "class")
    assert (stand_in.ours.mean, stand_in.paper, stand_in.verdict) == (85.0, None, None)
    (summary,) = scored(85.0, buffer=123).summaries()
    unpublished = compare(benchmark("seq-mnist"), summary, "class")
    assert (unpublished.paper, unpublished.verdict) == (None, None)


def test_a_setting_that_was_not_scored_is_refused() -> None:
    (summary,) = scored(85.0).summaries()
    with pytest.raises(InputError, match="no accuracy in the setting 'domain'"):
        compare(benchmark("seq-mnist"), summary, "domain")


@pytest.mark.usefixtures("nothing_here")
@pytest.mark.parametrize("name", ["seq-mnist", "perm-mnist", "rot-mnist", "mnist-360"])
def test_digits_stand_in_for_mnist_and_it_is_said(name: str) -> None:
    said: list[str] = []
    known, stream = stream_or_stand_in(benchmark(name), None, said.append)
    assert known.stands_in == name
    assert stream.name == known.name
    assert known.setting == benchmark(name).setting
    assert "mnist could not be found or fetched" in said[0]
    assert said[1] == f"using {known.name} instead of {name}: these are not the paper's data"
    assert len(said) == 2


@pytest.mark.usefixtures("nothing_here")
def test_what_has_no_stand_in_is_refused() -> None:
    known = benchmark("seq-mnist")
    alone = type(known)(**{**vars(known), "name": "seq-letters"})
    said: list[str] = []
    with pytest.raises(DataUnavailable):
        stream_or_stand_in(alone, None, said.append)
    assert said == []


def test_bundled_data_need_no_stand_in() -> None:
    said: list[str] = []
    known, stream = stream_or_stand_in(benchmark("seq-digits"), None, said.append)
    assert (known.name, stream.name, said) == ("seq-digits", "seq-digits", [])
