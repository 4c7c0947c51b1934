"""Networks, data, precision and code are named wherever rows show several of them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.experiments.some_results import PLAIN

from recollect import Results
from recollect.cli.main import main
from recollect.experiments.apart import variants
from recollect.experiments.exports import exported
from recollect.experiments.report import build
from recollect.experiments.store import Store
from recollect.train import Result

FIRST = replace(
    PLAIN, benchmark="mine", method="er", stream="d1" * 8, network="a1" * 8, code="c1" * 6,
    hyperparameters={"lr": 0.1}, buffer=50,
)  # fmt: skip


def run(lr: float = 0.1, **other: Any) -> Result:
    return replace(FIRST, hyperparameters={"lr": lr}, **other)


# As of the commands of a stranger: several networks, and no two rows with the same rest.
OWN_NETWORKS = [
    run(),
    run(0.05, network="b2" * 8, network_class="GN"),
    run(0.03, network="c3" * 8, network_class="MLP(hidden=[400])"),
    run(buffer=100, network="c3" * 8, network_class="MLP(hidden=[400])"),
    run(method="derpp", network="d4" * 8, network_class="Linear", code="c2" * 6),
]
NAMED = ["default", "GN", "MLP(hidden=[400])", "MLP(hidden=[400])", "Linear"]


def shown(results: Results, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What every place says: Python, exports, and the command."""
    store = Store(tmp_path / "runs.sqlite")
    store.add(results)
    capsys.readouterr()
    assert main(["results", "--store", str(store.path)]) == 0
    printed = capsys.readouterr().out
    return [str(results), exported(results, ".md"), exported(results, ".tex"), printed]


def test_every_place_names_networks_whatever_the_hyperparameters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = Results(OWN_NETWORKS)
    expected = [f"network {name}" for name in NAMED]
    assert [each.apart for each in results.summaries()] == expected
    for text in shown(results, tmp_path, capsys):
        for name in set(NAMED):
            assert text.count(f"network {name}") == NAMED.count(name), text
    rows = build(results)["rows"]
    assert {row["apart"] for row in rows} == {row["variant"] for row in rows} == set(expected)


def test_every_place_names_data_whatever_the_hyperparameters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = Results([run(), run(0.05, stream="e2" * 8)])
    for text in shown(results, tmp_path, capsys):
        assert "data d1d1d1d1" in text
        assert "data e2e2e2e2" in text
    assert [row["apart"] for row in build(results)["rows"]] == ["data d1d1d1d1", "data e2e2e2e2"]


def test_a_single_network_is_named_unless_it_is_the_default(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = Results([run(network_class="GN"), run(0.05, network_class="GN")])
    assert [each.apart for each in results.summaries()] == ["", ""]
    for text in shown(results, tmp_path, capsys):
        assert "network GN" in text
    assert "network" not in str(Results([run(), run(0.05)]))


def test_other_networks_on_other_data_are_both_named() -> None:
    several = [
        run(), run(stream="e2" * 8, network="b2" * 8, network_class="GN"),
        run(stream="f3" * 8, network="c3" * 8),
    ]  # fmt: skip
    expected = [
        "data d1d1d1d1, network default", "data e2e2e2e2, network GN",
        "data f3f3f3f3, network default",
    ]  # fmt: skip
    assert [each.apart for each in Results(several).summaries()] == expected
    # The default network of a stream depends on the shape of its data, which is no choice.
    by_shape = Results([several[0], several[2]]).summaries()
    assert [each.apart for each in by_shape] == ["data d1d1d1d1", "data f3f3f3f3"]


def test_the_splits_of_a_stream_are_not_several_data() -> None:
    both = Results([run(), run(0.05, stream="e2" * 8, validation=True)])
    assert [each.apart for each in both.summaries()] == ["", ""]
    assert [each.chosen for each in both.summaries()] == [("test set",), ("validation split",)]


def test_precision_and_code_are_named_within_what_could_be_taken_for_an_effect() -> None:
    several = Results([run(), run(0.05, precision="bf16")])
    assert [each.apart for each in several.summaries()] == ["precision float32", "precision bf16"]
    changed = Results([run(), run(0.05, code="e5" * 6), run(buffer=100, code="e5" * 6)])
    assert [each.apart for each in changed.summaries()] == ["code c1c1c1c1", "code e5e5e5e5", ""]
    methods = Results([run(), run(method="derpp", code="e5" * 6)])
    assert [each.apart for each in methods.summaries()] == ["", ""]


def test_unknown_parts_of_old_files_are_no_variant_of_one_network() -> None:
    old: dict[str, Any] = {"stream": "", "network": "", "code": ""}
    assert [each.apart for each in Results([run(0.05, **old), run()]).summaries()] == ["", ""]
    same = [each.apart for each in Results([run(**old), run()]).summaries()]
    assert same == ["data unknown", "data d1d1d1d1"]
    beside = [run(0.05, **old), run(), run(network="b2" * 8, network_class="GN")]
    assert [each.apart for each in Results(beside).summaries()] == [
        "network unknown", "network default", "network GN",
    ]  # fmt: skip


def test_plain_sgd_has_one_name() -> None:
    several = Results([run(), run(optimiser="Adam, constant"), run(optimiser="SGD, step per task")])
    assert [each.apart for each in several.summaries()] == [
        "optimiser SGD", "optimiser Adam", "optimiser SGD, schedule step per task",
    ]  # fmt: skip
    older = Results([run(), run(optimiser="SGD, constant")])
    assert [each.apart for each in older.summaries()] == [
        "optimiser sgd", "optimiser SGD, constant",
    ]  # fmt: skip


def test_variants_have_the_labels_of_the_tables() -> None:
    variant = variants(OWN_NETWORKS)
    assert [variant(each) for each in OWN_NETWORKS] == [f"network {name}" for name in NAMED]


def test_the_points_of_a_grid_are_listed_in_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    order = [(0.3, 50), (0.03, 200), (0.1, 50), (0.03, 50)]
    results = Results([run(lr, buffer=buffer) for lr, buffer in order])
    lines = shown(results, tmp_path, capsys)[-1].splitlines()
    found = [line.split() for line in lines if line.startswith("mine")]
    assert [(cells[2], cells[-1]) for cells in found] == [
        ("50", "0.03"), ("50", "0.1"), ("50", "0.3"), ("200", "0.03"),
    ]  # fmt: skip


def test_exported_tables_are_in_the_order_of_the_screen(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs.sqlite")
    order = [(0.3, 1, False), (0.1, 1, True), (0.1, 1, False), (0.3, 0, False), (0.1, 0, False)]
    store.add([run(lr, seed=seed, validation=split) for lr, seed, split in order])

    def rows(name: str) -> list[list[str]]:
        out = tmp_path / name
        assert main(["results", "--store", str(store.path), "--export", str(out)]) == 0
        return [re.split(r" *[|&,] *", line) for line in out.read_text().splitlines()]

    head, *runs = rows("runs.csv")
    found = [[row[head.index(name)] for name in ("lr", "validation", "seed")] for row in runs]
    assert found == [
        ["0.1", "0", "0"], ["0.1", "0", "1"], ["0.3", "0", "0"], ["0.3", "0", "1"],
        ["0.1", "1", "1"],
    ]  # fmt: skip
    for name, first, last in (("table.md", 2, 5), ("table.tex", 4, 7)):
        means = rows(name)[first:last]
        assert [row[-6 if name == "table.md" else -5] for row in means] == ["0.1", "0.3", "0.1"]


@pytest.mark.parametrize("words", [["--benchmark", "nope"], ["--method", "x"], ["--buffer", "7"]])
def test_a_selection_without_runs_is_an_error(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(tmp_path / "runs.sqlite")
    store.add([run()])
    assert main(["results", "--store", str(store.path), *words]) == 2
    assert "no matching runs in" in capsys.readouterr().err
