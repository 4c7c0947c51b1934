"""Which configuration is shown, why, and which networks are told apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.experiments.some_results import PLAIN

from recollect import Results, run
from recollect.experiments.choices import Choice, choices
from recollect.experiments.figures import Material, recipe
from recollect.experiments.figures.chart import style_of
from recollect.experiments.files import read_json
from recollect.experiments.report import build
from recollect.methods import ER
from recollect.train import Result


def runs(*accuracies: float, **others: Any) -> list[Result]:
    return [
        replace(PLAIN, seed=seed, accuracy={"class": value, "task": 99.0}, **others)
        for seed, value in enumerate(accuracies)
    ]


def with_rate(rate: float, *accuracies: float, **others: Any) -> list[Result]:
    values = {**PLAIN.hyperparameters, "lr": rate}
    return runs(*accuracies, hyperparameters=values, **others)


def only(found: list[Choice]) -> Choice:
    (choice,) = found
    return choice


def chosen(*found: list[Result]) -> tuple[float, str]:
    choice = only(choices(Results([run for runs in found for run in runs]).summaries()))
    assert len(choice.configurations) == len(found)
    return choice.shown.first.hyperparameters["lr"], choice.why


def test_the_papers_values_are_shown_first() -> None:
    assert chosen(with_rate(0.5, 99.0, 99.0), runs(60.0)) == (0.03, "the default values")


def test_without_them_the_best_mean_is_shown_and_it_says_so() -> None:
    grid = [with_rate(0.5, 70.0), with_rate(0.2, 80.0), with_rate(0.1, 60.0)]
    assert chosen(*grid) == (0.2, "the best mean accuracy, Class-IL")
    own = [[replace(each, method="mine") for each in found] for found in grid]
    assert chosen(*own) == (0.2, "the best mean accuracy, Class-IL")


def test_one_lucky_seed_is_not_shown_before_several() -> None:
    expected = (0.5, "the best mean accuracy of those with 2 seeds, Class-IL")
    assert chosen(with_rate(0.5, 70.0, 71.0), with_rate(0.2, 90.0)) == expected


def test_two_networks_are_two_variants_in_every_figure() -> None:
    found = [
        *runs(70.0, 72.0, benchmark="mine", network="a1", network_class="Small"),
        *runs(80.0, 82.0, benchmark="mine", network="b2", network_class="Large"),
    ]
    summaries = Results(found).summaries()
    assert [each.variant for each in choices(summaries)] == ["network Small", "network Large"]
    material = Material(results=found)
    panels = recipe("memory").data(material).panels
    assert [(panel.variant, panel.lines[0].points[0].mean) for panel in panels] == [
        ("network Small", 71.0), ("network Small", 99.0),
        ("network Large", 81.0), ("network Large", 99.0),
    ]  # fmt: skip
    assert len(recipe("wall-clock").data(material).panels) == 2
    over_time = recipe("over-time").data(Material(results=[
        replace(each, buffer=500) for each in found
    ]))  # fmt: skip
    assert {panel.variant for panel in over_time.panels} == {"network Small", "network Large"}


def test_runs_of_old_files_are_no_variant_of_one_network() -> None:
    found = [*runs(70.0, network="a1"), *with_rate(0.5, 71.0)]
    assert [each.variant for each in choices(Results(found).summaries())] == [""]


def test_a_network_of_ones_own_is_not_compared_with_the_paper() -> None:
    data = build(runs(80.0, network="a", network_class="Mine"))
    assert data["rows"][0]["paper"] == {}
    assert data["tallies"] == []


def test_task_il_is_not_shown_beside_domain_il() -> None:
    both = {"task": 99.0, "domain": 70.0}
    lines: list[list[float | None]] = [[1.0, None], [1.0, 2.0]]
    matrix = dict.fromkeys(both, lines)
    found = [replace(PLAIN, benchmark="mine", accuracy=both, matrix=matrix)]
    data = build(found)
    assert data["settings"] == {"domain": "Domain-IL"}
    (row,) = data["rows"]
    assert list(row["scores"]) == list(row["runs"][0]["matrix"]) == ["domain"]
    panels = recipe("memory").data(Material(results=found)).panels
    assert [panel.title for panel in panels] == ["mine, Domain-IL"]


class Mine(ER):
    name = "mine"
    title = "My method"


def test_a_method_of_ones_own_keeps_its_title_in_files(tmp_path: Any) -> None:
    found = run("seq-digits", Mine, buffer=20, seeds=1, device="cpu")
    assert found[0].method_title == "My method"
    found.save(tmp_path / "mine.json")
    again = read_json(tmp_path / "mine.json")
    assert build(again)["methods"]["mine"]["title"] == "My method"
    (panel, *_) = recipe("memory").data(Material(results=again)).panels
    assert panel.lines[0].title == "My method"
    assert run("seq-digits", "er", buffer=20, seeds=1, device="cpu")[0].method_title == ""


def test_methods_of_ones_own_have_colours_that_differ() -> None:
    assert style_of("mine") != style_of("yours") != style_of("er")
