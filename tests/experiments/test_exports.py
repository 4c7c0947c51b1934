"""Exports carry what varies, say Class-IL, and keep the titles of methods of one's own."""

from __future__ import annotations

import csv
import re
from dataclasses import replace

from tests.experiments.some_results import PLAIN, some

from recollect import Results
from recollect.experiments.exports import exported
from recollect.train import Result


def grid() -> list[Result]:
    return [
        replace(PLAIN, seed=seed, hyperparameters={**PLAIN.hyperparameters, "alpha": alpha})
        for alpha in (0.1, 0.2, 0.5)
        for seed in range(2)
    ]


def test_a_grid_has_a_column_for_what_varies() -> None:
    head, _, *rows = exported(Results(grid()), ".md").splitlines()
    assert head == "| benchmark | method | buffer | alpha | seeds | Class-IL | Task-IL |"
    assert [row.split(" | ")[3] for row in rows[:3]] == ["0.1", "0.2", "0.5"]
    assert rows[3:] == ["", "All rows: lr 0.03, beta 1, bs 10, mbs 10."]
    lines = exported(Results(grid()), ".tex").splitlines()
    assert lines[:2] == [
        "% All rows: lr 0.03, beta 1, bs 10, mbs 10.", r"\begin{tabular}{llrrrrr}",
    ]  # fmt: skip
    assert lines[3] == r"benchmark & method & buffer & alpha & seeds & Class-IL & Task-IL \\"
    assert lines[5].startswith(r"seq-mnist & DER++ & 200 & 0.1 & 2 & 80.00 $\pm$0.00 ")


def test_methods_with_other_hyperparameters_have_them_in_words() -> None:
    text = exported(Results(some("er", 200, [80.0]) + some("derpp", 200, [81.0])), ".md")
    head, _, er, derpp, _, note = text.splitlines()
    assert head == "| benchmark | method | buffer | seeds | Class-IL | Task-IL | values |"
    assert er.endswith("|  |")
    assert derpp.endswith("| alpha 0.5, beta 0.5 |")
    assert note.startswith("All rows: lr 0.03")


def test_a_title_of_ones_own_is_kept() -> None:
    mine = [replace(run, method="mine", method_title="My & own") for run in grid()]
    again = [Result.from_json(run.as_json()) for run in mine]
    assert "| My & own |" in exported(Results(again), ".md")
    assert r"My \& own" in exported(Results(again), ".tex")
    (row, *_) = csv.DictReader(exported(Results(again), ".csv").splitlines())
    assert (row["method"], row["title"]) == ("mine", "My & own")


def test_a_title_cannot_break_a_table() -> None:
    run = replace(PLAIN, method="mine", method_title=r"A | <b>\alpha^2</b>~#1", benchmark="a|b")
    head, _, row, *_ = exported(Results([run]), ".md").splitlines()
    cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", row)]
    assert len(cells) == head.count("|") + 1
    assert cells[1:3] == [r"a\|b", r"A \| &lt;b>\alpha^2&lt;/b>~#1"]
    assert (
        r"a\textbar{}b & A \textbar{} \textless{}b\textgreater{}\textbackslash{}alpha"
        r"\textasciicircum{}2\textless{}/b\textgreater{}\textasciitilde{}\#1 & "
    ) in exported(Results([run]), ".tex")


def test_a_data_frame_has_a_row_for_every_run() -> None:
    runs = [*grid(), replace(PLAIN, hyperparameters={"lr": 0.1, "steps": 3.0})]
    frame = Results(runs).to_pandas()
    assert len(frame) == 7
    assert frame["accuracy Class-IL"].tolist() == [80.0] * 7
    assert frame.groupby("alpha")["seed"].count().to_dict() == {0.1: 2, 0.2: 2, 0.5: 2}
    assert frame["hyper-parameter steps"].dropna().tolist() == [3.0]
    assert set(frame["steps"]) == {6002}
    columns = next(csv.reader(exported(Results(runs), ".csv").splitlines()))
    assert columns == [*frame.columns]
