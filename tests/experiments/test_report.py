"""The report: its numbers are those of the comparison, and nothing in the data can break it."""

from __future__ import annotations

import base64
import html.parser
import importlib.util
import json
import re
import shlex
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recollect import InputError, Results
from recollect.cli.main import main
from recollect.experiments.report import build, render
from recollect.experiments.report.rows import METRICS
from recollect.experiments.reproduce import compare
from recollect.experiments.results import Mean
from recollect.experiments.store import Store
from recollect.files import write_text
from recollect.streams import benchmark
from recollect.train import Result
from recollect.train.provenance import Provenance

RUN = Result(
    benchmark="seq-mnist",
    method="derpp",
    buffer=200,
    seed=0,
    hyperparameters={"lr": 0.03, "alpha": 0.2, "beta": 1.0, "bs": 10, "mbs": 10},
    accuracy={"class": 85.0, "task": 98.8},
    fwt={"class": -11.0, "task": 0.5},
    bwt={"class": -16.0, "task": -0.5},
    forgetting={"class": 16.0, "task": 0.5},
    epochs=1,
    validation=False,
    matrix={"class": [[99.95, 1.5, None], [80.0, 90.125, 0.0], [70.0, 90.0, 95.0]]},
    untrained={"class": [1.0, 12.5, 30.0]},
    train_seconds=0.65432,
    steps=6002,
    memory_bytes=166400,
    diverged=False,
    device="CPU",
    execution="eager",
)
HOSTILE = "</script><script>alert(1)</script><!-- & \u2028 'quoted' \"twice\""


def stored(run: Result, created: str = "", command: str = "", machine: str = "") -> Result:
    made = Provenance("0.1.0", machine, command, created)
    return replace(run, code=run.code or "abc", provenance=made)


def runs(*accuracies: float, **others: Any) -> list[Result]:
    return [
        stored(replace(RUN, seed=seed, accuracy={"class": value, "task": 98.8}, **others))
        for seed, value in enumerate(accuracies)
    ]


def data_in(page: str) -> Any:
    """The data as a browser reads it: what the parser finds inside that script."""

    class Parser(html.parser.HTMLParser):
        inside = False
        text = ""

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.inside = ("id", "data") in attrs

        def handle_endtag(self, tag: str) -> None:
            self.inside = False

        def handle_data(self, data: str) -> None:
            self.text += data if self.inside else ""

    parser = Parser()
    parser.feed(page)
    return json.loads(parser.text)


@pytest.mark.parametrize("accuracies", [(85.0, 87.0), (70.0, 70.1), (95.123, 95.456), (85.0,)])
def test_the_numbers_are_those_of_the_comparison(accuracies: tuple[float, ...]) -> None:
    rows = runs(*accuracies)
    (row,) = build(rows)["rows"]
    (summary,) = Results(rows).summaries()
    for setting in ("class", "task"):
        one = compare(benchmark("seq-mnist"), summary, setting)
        mean, std, seeds = row["scores"][setting]["accuracy"]
        assert str(Mean(mean, std, seeds)) == str(one.ours)
        assert seeds == one.ours.seeds
        assert one.paper is not None
        assert one.verdict is not None
        judged = [one.verdict.kind, one.verdict.weak, round(one.verdict.allowed, 2)]
        expected = [one.paper.mean, one.paper.std, *judged]
        assert row["paper"][setting]["accuracy"] == expected


def test_transfer_and_forgetting_are_compared_by_the_same_rule() -> None:
    worse = {"class": 60.0, "task": 0.5}
    (row,) = build(runs(85.0, 85.5, forgetting=worse))["rows"]
    # 3 * sqrt(1.73 ** 2 / 2 + 1.73 ** 2 / 10) = 4.02: two seeds count with the paper's deviation.
    assert row["paper"]["class"]["forgetting"] == [16.27, 1.73, "above", True, 4.02]
    assert row["paper"]["task"]["forgetting"][2:4] == ["equal", True]
    assert row["scores"]["class"]["forgetting"] == [60.0, 0.0, 2]


def test_every_published_cell_counts_once() -> None:
    other = {**RUN.hyperparameters, "lr": 0.5}
    data = build([*runs(*[20.0] * 12, hyperparameters=other), *runs(*[84.0] * 10)])
    (tally,) = [each for each in data["tallies"] if each["metric"] == "accuracy"]
    assert tally == {
        "benchmark": "seq-mnist", "metric": "accuracy", "printed": 71,
        "reproduced": 2, "equal": 1, "close": 1, "above": 0, "below": 0, "weak": 0,
    }  # fmt: skip
    assert [row["usual"] for row in data["rows"]] == [True, False]
    assert [row["id"] for row in data["rows"]] == ["seq-mnist/derpp/200", "seq-mnist/derpp/200~2"]


def test_weak_verdicts_are_counted_and_one_seed_without_any_deviation_has_none() -> None:
    tallies = build(runs(85.0, 86.0))["tallies"]
    assert [each["weak"] for each in tallies if each["metric"] == "accuracy"] == [2]
    once = replace(RUN, benchmark="seq-cifar10", epochs=1)
    data = build([stored(once)])
    assert data["rows"][0]["paper"]["class"]["accuracy"] == [41.93, None, None]
    assert data["tallies"] == []


def test_runs_far_below_the_others_are_marked() -> None:
    low, *others = build(runs(40.0, 85.0, 86.0, 84.0, 85.5))["rows"][0]["runs"]
    assert low["farBelow"]
    assert not any(run["farBelow"] for run in others)


def test_nothing_is_compared_on_a_validation_split_or_a_stand_ins_data() -> None:
    for others in ({"validation": True}, {"benchmark": "seq-digits"}, {"epochs": 7}):
        data = build(runs(85.0, **others))
        assert not any(data["rows"][0]["paper"].values())
        assert data["tallies"] == []


def test_matrices_are_whole_hundredths_without_their_empty_tails() -> None:
    (row,) = build(runs(85.0))["rows"]
    (run,) = row["runs"]
    assert run["matrix"] == {"class": [[9995, 150], [8000, 9012, 0], [7000, 9000, 9500]]}
    assert run["untrained"] == {"class": [100, 1250, 3000]}
    scores = dict(zip(METRICS, run["scores"]["class"], strict=True))
    assert list(scores.values())[:4] == [8500, -1100, -1600, 1600]
    incremental = (99.95 + (80 + 90.125) / 2 + (70 + 90 + 95) / 3) / 3
    assert scores["average_incremental_accuracy"] == round(100 * incremental)
    assert scores["anytime_accuracy"] is None, "it has no curves"


def test_a_run_that_was_made_twice_is_shown_once_as_it_was_last() -> None:
    first, last = runs(10.0)[0], runs(85.0)[0]
    data = build([stored(last, "2026-02-01"), stored(first, "2026-01-01")])
    assert (data["runs"], data["repeated"]) == (1, 1)
    assert data["rows"][0]["scores"]["class"]["accuracy"] == [85.0, 0.0, 1]


def test_missing_scores_and_matrices_are_left_open() -> None:
    nothing = {"class": None, "task": None}
    bare: dict[str, Any] = {"fwt": nothing, "bwt": {}, "forgetting": nothing}
    (row,) = build(runs(85.0, 86.0, **bare, matrix={}, untrained=None))["rows"]
    assert [row["scores"]["class"][m] for m in ("fwt", "bwt", "forgetting")] == [None] * 3
    assert (row["runs"][0]["matrix"], row["runs"][0]["untrained"]) == ({}, {})
    render(build(runs(85.0, **bare, matrix={}, untrained=None, train_seconds=float("nan"))))


def test_other_peoples_methods_and_benchmarks_are_shown() -> None:
    own = replace(RUN, benchmark="my stream!", method="mine", hyperparameters={"x": 1}, matrix={})
    rows = [stored(replace(own, accuracy={"odd": 50.0}))]
    data = build([*rows, *runs(85.0)])
    titles = [(name, about["title"]) for name, about in data["methods"].items()]
    assert titles == [("derpp", "DER++"), ("mine", "mine")]
    assert list(data["benchmarks"]) == ["seq-mnist", "my stream!"]
    assert data["settings"] == {"class": "Class-IL", "task": "Task-IL", "odd": "odd"}
    row = data["rows"][1]
    assert (row["id"], row["paper"], row["again"]) == ("my-stream-/mine/200", {}, "")
    assert data_in(render(data)) == data


def test_nothing_in_the_data_becomes_markup() -> None:
    rows = [
        stored(replace(r, method=HOSTILE, benchmark=HOSTILE, device=HOSTILE),
               command=HOSTILE, machine=HOSTILE)
        for r in runs(50.0)
    ]  # fmt: skip
    page = render(build(rows))
    assert page.count("</script>") == 2
    assert page.count("<script") == 2
    assert "alert(1)</" not in page
    assert data_in(page)["rows"][0]["method"] == HOSTILE


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="it draws the figures")
def test_the_page_needs_nothing_else_and_may_fetch_nothing() -> None:
    data = build(runs(85.0))
    page = render(data)
    assert "default-src 'none'" in page
    assert "@@" not in page
    figures = zlib.decompress(base64.b64decode(data["figures"]["drawn"])).decode()
    for text in (page, figures):
        assert not re.findall(r"""(?:src|href)=\\?["'](?!data:|#)""", text)
    assert re.findall(r"https?://[\w.]+", page) == []
    hosts = set(re.findall(r"https?://[\w.]+", figures))
    assert hosts == {"http://www.w3.org"}, "the name of SVG, which nobody fetches"
    for unsafe in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert unsafe not in page


def test_many_runs_make_a_small_page() -> None:
    matrix = [[90.0 + i / 7 if j < i + 2 else None for j in range(20)] for i in range(20)]
    rows = [
        stored(replace(r, buffer=size, matrix={"class": matrix, "task": matrix}))
        for size in range(100, 270)
        for r in runs(*[85.0] * 10)
    ]
    assert len(rows) == 1700
    assert len(render(build(rows))) < 6e6


def test_no_runs_are_refused() -> None:
    with pytest.raises(InputError, match="no runs to report"):
        build([])


def test_a_page_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        write_text(tmp_path / "nowhere" / "report.html", render(build(runs(85.0))))
    with pytest.raises(ValueError, match="JSON"):
        write_text(tmp_path / "report.html", render({"odd": float("nan")}))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("bare_machine")
def test_the_command_writes_what_the_store_has(capsys: pytest.CaptureFixture[str]) -> None:
    store = Store()
    store.add(runs(85.0, 86.0))
    store.add(runs(50.0, benchmark="perm-mnist"))
    assert main(["report"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("recollect-report.html: 3 runs in 2 configurations, 0.")
    assert data_in(Path("recollect-report.html").read_text("utf-8"))["runs"] == 3
    assert main(["report", "--benchmark", "perm-mnist", "--out", "perm.html"]) == 0
    assert list(data_in(Path("perm.html").read_text("utf-8"))["benchmarks"]) == ["perm-mnist"]
    assert main(["report", "--benchmark", "rot-mnist"]) == 2
    assert "no runs on 'rot-mnist', only on perm-mnist, seq-mnist" in (capsys.readouterr().err)


@pytest.mark.usefixtures("bare_machine")
def test_the_command_reads_files_instead(capsys: pytest.CaptureFixture[str]) -> None:
    Results(runs(85.0, 86.0)).save("a.json")
    Results(runs(85.0, buffer=500)).save("b.json")
    assert main(["report", "--from", "a.json", "b.json", "--out", "c.html"]) == 0
    assert data_in(Path("c.html").read_text("utf-8"))["runs"] == 3
    Path("bad.json").write_text("{}[]")
    for words in (["--from", "bad.json"], ["--from", "none.json"], ["--out", "nowhere/x.html"]):
        capsys.readouterr()
        assert main(["report", *words]) == 2
        assert capsys.readouterr().err.startswith("recollect: ")


@pytest.mark.usefixtures("bare_machine")
def test_the_command_without_runs_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report"]) == 2
    said = capsys.readouterr().err
    assert "no runs in the store" in said
    assert "recollect reproduce" in said
    assert main(["report", "--store", "none.sqlite"]) == 2
    assert "there is no result store 'none.sqlite': correct --store" in capsys.readouterr().err
    assert not Path("recollect-report.html").exists()


@pytest.mark.usefixtures("bare_machine")
def test_the_command_beside_a_run_makes_it_again() -> None:
    words = "run seq-digits er --buffer 20 --lr 0.05 --seeds 1-2 --device cpu --workers 1"
    assert main([*words.split(), "--json", "once.json"]) == 0
    assert main(["report", "--from", "once.json"]) == 0
    (row,) = data_in(Path("recollect-report.html").read_text("utf-8"))["rows"]
    assert (
        row["again"]
        == "recollect run seq-digits er --buffer 20 --lr 0.05 --bs 10 --mbs 10 --seeds 1-2"
    )
    again = shlex.split(row["runs"][1]["again"])
    assert again[-2:] == ["--seeds", "2-2"]
    assert main([*again[1:], "--device", "cpu", "--fresh", "--json", "again.json"]) == 0
    (made,) = json.loads(Path("again.json").read_text("utf-8"))
    assert made["hyperparameters"] == row["hyperparameters"]
    assert made["seed"] == 2
    assert made["accuracy"]["class"] == pytest.approx(
        row["runs"][1]["scores"]["class"][0] / 100, abs=1.0
    )
